-- The tag of slurmprio in Lua, for job_submit.lua and cli_filter.lua: the grammar of package slurmplug/jobtag. The vectors of
-- slurmplug/jobtag/testdata/vectors.txt run through both. Plain Lua 5.1 to 5.4, without any library but string. The text is
-- hostile and slurmctld waits: each pattern is linear in its length, with one repetition at most, at its start or its end
-- (tests/lua_work_test.go).
local M = { version = 1, max = 512 }

local signals = {}
for s in ("HUP INT QUIT ABRT ALRM TERM USR1 USR2 URG CONT TSTP TTIN TTOU"):gmatch("%S+") do signals[s] = true end

-- split calls f with each part of text between separators, and reports whether f was true of all.
local function all(text, separator, f)
  local from = 1
  while true do
    local at = text:find(separator, from, true)
    if not f(text:sub(from, at and at - 1)) then return false end
    if not at then return true end
    from = at + 1
  end
end

-- cut returns what stands before and after the first separator; nil: there is none.
local function cut(text, separator)
  local at = text:find(separator, 1, true)
  if at then return text:sub(1, at - 1), text:sub(at + 1) end
end

local function one_of(...)
  local words = { ... }
  local want = "want " .. table.concat(words, ", ", 1, #words - 1) .. " or " .. words[#words]
  return function(v)
    for _, w in ipairs(words) do if v == w then return nil end end
    return want
  end
end

local function seconds(v)
  local n = v:match("^%d+$") and tonumber(v)
  if not n or n < 1 or n > 2147483647 then return "want whole seconds, 1 to 2147483647" end
end

local function valid_name(s)
  return #s >= 1 and #s <= 64 and s:find("^[%w_][%w._-]*$") ~= nil
end

-- number reads plain digits with at most one point, none of them first.
local function number(s)
  local point = s:find(".", 1, true)
  if not s:find("^%d") or s:find("[^%d.]") or point and s:find(".", point + 1, true) then return nil end
  local n = tonumber(s)
  if n and n >= 1e-6 and n <= 1e15 then return n end
end

local want_speeds = "want TYPE:SPEED for each GPU type, such as a100:1,v100:0.45, with plain numbers above 0"
local want_curves = "want TYPE:AMOUNTxSPEED-AMOUNTxSPEED for each GPU type, amounts rising, such as a100:3x1-9x2.4"

-- typed reads TYPE:TEXT,TYPE:TEXT, each type once.
local function typed(v, want, valid)
  local seen, why = {}, nil
  all(v, ",", function(item)
    local name, text = cut(item, ":")
    if not name or not valid_name(name) or not valid(text) then
      why = want
    elseif seen[name] then
      why = "GPU type " .. name .. " stands twice"
    else
      seen[name] = true
    end
    return not why
  end)
  return why
end

local function curve(text)
  local last = 0
  return all(text, "-", function(point)
    local a, s = cut(point, "x")
    a = a and number(a)
    if not a or not number(s) or a <= last then return false end
    last = a
    return true
  end)
end

local keys = {
  type = one_of("te", "be", "none"),
  retry = one_of("never", "infra", "always"),
  grace = seconds,
  ckpt = seconds,
  signal = function(v)
    if not signals[(v:gsub("^B:", ""))] then return "want a signal that a program can catch, such as USR1, or B:USR1 for the batch shell alone" end
  end,
  workload = function(v) if not valid_name(v) then return "want 1 to 64 letters, digits, '.', '-' or '_'" end end,
  speed = function(v) return typed(v, want_speeds, number) end,
  cpu = function(v) return typed(v, want_curves, curve) end,
  mem = function(v) return typed(v, want_curves, curve) end,
  steps = function(v) if not number(v) then return "want a plain number from 0.000001 to 1000000000000000" end end,
  v = function(v) if v ~= "1" then return "only version 1 is known" end end,
  guess = function() end, -- they do nothing any more; jobs may still carry them
  share = function() end,
  ["give-back"] = function() end,
}

-- unescape reads a part of a URL query; nil: it is none.
local function unescape(s)
  if s:gsub("%%%x%x", ""):find("%%") then return nil end
  return (s:gsub("%+", " "):gsub("%%(%x%x)", function(h) return string.char(tonumber(h, 16)) end))
end

-- printable makes hostile text safe to show, and short.
local function printable(s)
  return '"' .. s:sub(1, 48):gsub("[^ -~]", "?"):gsub('"', "'") .. '"'
end

-- split returns the tag with which a comment begins, of one that is too long as much as shows that; nil: there is none.
function M.split(comment)
  if not comment or comment:sub(1, 5) ~= "prio:" then return nil end
  local tag = comment:sub(1, M.max + 1)
  return cut(tag, " ") or tag
end

-- parse reads a tag: a table of its keys, or nil and why it does not count.
function M.parse(tag)
  if tag:sub(1, 5) ~= "prio:" then return nil, "tag: does not begin with prio:" end
  if #tag > M.max then return nil, "tag: at most " .. M.max .. " bytes are allowed" end
  local found, why, more = {}, nil, false
  all(tag:sub(6), "&", function(pair)
    if pair == "" then return true end
    local k, v = cut(pair, "=")
    k, v = unescape(k or pair), unescape(v or "")
    if not k or not v or pair:find(";", 1, true) then
      why = "tag: " .. printable(pair) .. " is not a URL query"
    elseif not keys[k] then
      why = "tag: key " .. printable(k) .. ": no such key"
    elseif found[k] then
      why = "tag: key " .. printable(k) .. ": stands twice"
    else
      local want = keys[k](v)
      why = want and "tag: key " .. printable(k) .. ", value " .. printable(v) .. ": " .. want
      found[k] = v
      more = more or not (k == "type" or k == "v" or k == "guess" or k == "share" or k == "give-back")
    end
    return not why
  end)
  if why then return nil, why end
  if not found.v then return nil, "tag: key \"v\": missing; a tag ends with v=1" end
  if found.type == "none" and more then return nil, 'tag: key "type", value "none": takes the job out of everything: the tag can say nothing else' end
  return found
end

-- encode writes a tag of a table of keys, as slurmplug/jobtag does; nil and why where a value is wrong.
function M.encode(said)
  local names, parts = { v = true }, {}
  for k in pairs(said) do names[k] = true end
  local sorted = {}
  for k in pairs(names) do sorted[#sorted + 1] = k end
  table.sort(sorted)
  for _, k in ipairs(sorted) do
    if #(said[k] or "") > M.max then return nil, "tag: at most " .. M.max .. " bytes are allowed" end
    parts[#parts + 1] = k .. "=" .. (k == "v" and "1" or said[k])
  end
  local tag = "prio:" .. table.concat(parts, "&")
  local ok, why = M.parse(tag)
  if not ok then return nil, why end
  return tag
end

return M
