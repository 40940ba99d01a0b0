// The SQL function for_each_row(statement, rows) of package bulk.
//
// SQLite's own header lies in the driver's module, where cgo does not find it: what is used of it
// is declared here, as https://www.sqlite.org/c3ref/intro.html has it. It is weak because the
// driver's object files, which define it, are linked last.

#include <stdint.h>
#include <string.h>

#define WEAK __attribute__((weak))

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef struct sqlite3_context sqlite3_context;
typedef struct sqlite3_value sqlite3_value;
typedef long long sqlite3_int64;

enum { SQLITE_OK = 0, SQLITE_MISUSE = 21, SQLITE_ROW = 100, SQLITE_DONE = 101, SQLITE_UTF8 = 1, SQLITE_DIRECTONLY = 0x80000 };

WEAK int sqlite3_auto_extension(void (*)(void));
WEAK int sqlite3_create_function(sqlite3 *, const char *, int, int, void *, void (*)(sqlite3_context *, int, sqlite3_value **),
                                 void (*)(sqlite3_context *, int, sqlite3_value **), void (*)(sqlite3_context *));
WEAK sqlite3 *sqlite3_context_db_handle(sqlite3_context *);
WEAK const unsigned char *sqlite3_value_text(sqlite3_value *);
WEAK const void *sqlite3_value_blob(sqlite3_value *);
WEAK int sqlite3_value_bytes(sqlite3_value *);
WEAK int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
WEAK int sqlite3_bind_parameter_count(sqlite3_stmt *);
WEAK int sqlite3_bind_int64(sqlite3_stmt *, int, sqlite3_int64);
WEAK int sqlite3_bind_double(sqlite3_stmt *, int, double);
WEAK int sqlite3_bind_text(sqlite3_stmt *, int, const char *, int, void (*)(void *));
WEAK int sqlite3_step(sqlite3_stmt *);
WEAK int sqlite3_reset(sqlite3_stmt *);
WEAK int sqlite3_finalize(sqlite3_stmt *);
WEAK int sqlite3_extended_errcode(sqlite3 *);
WEAK const char *sqlite3_errmsg(sqlite3 *);
WEAK void sqlite3_result_error(sqlite3_context *, const char *, int);
WEAK void sqlite3_result_error_code(sqlite3_context *, int);

// bind_next binds a parameter to the next value and moves *at behind it. Rows.Add makes values.
static int bind_next(sqlite3_stmt *stmt, int parameter, const char **at, const char *end) {
  const char *p = *at;
  if (end - p < 1 + 8) {
    return SQLITE_MISUSE;
  }
  char kind = *p++;
  int64_t n;
  memcpy(&n, p, 8);
  p += 8;
  int rc = SQLITE_MISUSE;
  if (kind == 'i') {
    rc = sqlite3_bind_int64(stmt, parameter, n);
  } else if (kind == 'f') {
    double f;
    memcpy(&f, &n, 8);
    rc = sqlite3_bind_double(stmt, parameter, f);
  } else if (kind == 't' && n >= 0 && n <= end - p) {
    rc = sqlite3_bind_text(stmt, parameter, p, (int)n, 0); // 0: the text stays where it is
    p += n;
  }
  *at = p;
  return rc;
}

static void for_each_row(sqlite3_context *context, int n, sqlite3_value **arguments) {
  sqlite3 *db = sqlite3_context_db_handle(context);
  const char *statement = (const char *)sqlite3_value_text(arguments[0]);
  const char *at = sqlite3_value_blob(arguments[1]);
  const char *end = at + sqlite3_value_bytes(arguments[1]);
  sqlite3_stmt *stmt = 0;
  int rc = statement ? sqlite3_prepare_v2(db, statement, -1, &stmt, 0) : SQLITE_MISUSE;
  int parameters = stmt ? sqlite3_bind_parameter_count(stmt) : 0;
  if (parameters == 0 && rc == SQLITE_OK) {
    rc = SQLITE_MISUSE;
  }
  while (rc == SQLITE_OK && at < end) {
    for (int i = 1; rc == SQLITE_OK && i <= parameters; i++) {
      rc = bind_next(stmt, i, &at, end);
    }
    if (rc != SQLITE_OK) {
      break;
    }
    do {
      rc = sqlite3_step(stmt);
    } while (rc == SQLITE_ROW);
    rc = sqlite3_reset(stmt);
  }
  if (rc == SQLITE_MISUSE) {
    sqlite3_result_error(context, "for_each_row: not a statement and its rows", -1);
  } else if (rc != SQLITE_OK) {
    rc = sqlite3_extended_errcode(db);
    sqlite3_result_error(context, sqlite3_errmsg(db), -1);
  }
  if (rc != SQLITE_OK) {
    sqlite3_result_error_code(context, rc);
  }
  sqlite3_finalize(stmt);
}

static int add_function(sqlite3 *db, char **message, const void *api) {
  return sqlite3_create_function(db, "for_each_row", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, 0, for_each_row, 0, 0);
}

int bulk_register(void) { return sqlite3_auto_extension((void (*)(void))add_function); }
