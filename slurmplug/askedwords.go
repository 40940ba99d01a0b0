package slurmplug

import (
	"fmt"
	"strings"
)

// askedHead are the words of scontrol show job that say how a job asks for its size
// and stand between its name and the first text that its user chooses freely, and
// whether a Slurm may leave one out.
var askedHead = map[string]bool{
	"UserId": false, "JobState": false, "NumNodes": false, "NumCPUs": false, "NumTasks": false, "CPUs/Task": false,
	"ReqB:S:C:T": false, "Socks/Node": false, "NtasksPerN:B:S:C": false, "CoreSpec": false, "MinCPUsNode": false,
	"OverSubscribe": false, "ReqNodeList": false, "ExcNodeList": false,
	"ReqTRES": true, "Exclusive": true, "MinMemoryNode": true, "MinMemoryCPU": true, "MinMemoryTRES": true,
}

// askedTail are those that stand behind all such texts but the address for mail.
var askedTail = map[string]bool{"CpusPerTres": true, "MemPerTres": true, "TresPerSocket": true, "NtasksPerTRES": true}

// shown is what scontrol --oneliner shows of a job, cut where its user's free texts
// are: a name, a comment, a path, and from 26.05 the command line, may hold any words.
// So words count by where they stand (slurm_sprint_job_info).
type shown struct {
	first string // before the name
	head  string // behind the name and before "Network="
	free  string // texts, and some words that only leave a job alone
	tail  string // at the end, but for the address for mail
}

// cutShown cuts the first record of what scontrol shows of a job whose record in the
// queue knows its name and account: their ends cannot be forged. A user who has a word
// and its place forged by a path only misleads priod about the own job: what is written
// is read back.
func cutShown(record *Job, out string) (shown, error) {
	first, named, ok := strings.Cut(out, " JobName=")
	if !ok || !strings.HasPrefix(first, "JobId=") {
		return shown{}, fmt.Errorf("JobId= and JobName= are missing: %.80q", out)
	}
	rest, ok := behind(named, record.Name)
	if !ok {
		return shown{}, fmt.Errorf("JobName= is not %.80q, as in the queue", record.Name)
	}
	s := shown{first: first}
	if before, after, ok := strings.Cut(rest, " Account="); ok {
		if after, ok = behind(after, record.Account); ok {
			s.head, rest = before+" ", after
		}
	}
	own := rest
	for _, end := range []string{" Network=", " Command=", " WorkDir="} { // --network is any text
		own, _, _ = strings.Cut(own, end)
	}
	s.head += own
	s.free = rest[len(own):]
	s.tail = s.free[strings.LastIndex(s.free, " WorkDir=")+1:]
	s.tail = s.tail[strings.LastIndex(s.tail, " StdOut=")+1:]
	s.tail, _, _ = strings.Cut(s.tail, " MailUser=")
	return s, nil
}

// askedWords finds the words that say how a job asks for its size.
func askedWords(record *Job, out string) (map[string]string, error) {
	s, err := cutShown(record, out)
	if err != nil {
		return nil, err
	}
	words := map[string]string{}
	if strings.Contains(s.first, " HetJobId=") {
		words["HetJobId"] = ""
	}
	if strings.Contains(s.free, " CronJob=") { // a comment that says so leaves the job alone
		words["CronJob"] = ""
	}
	if err := addWords(words, s.head, func(key string) bool { _, counts := askedHead[key]; return counts }); err != nil {
		return nil, err
	}
	for key, optional := range askedHead {
		if _, known := words[key]; !known && !optional {
			return nil, fmt.Errorf("%s= is missing", key)
		}
	}
	if err := oneMemory(words, s.head); err != nil {
		return nil, err
	}
	return words, addWords(words, s.tail, func(key string) bool { return askedTail[key] })
}

// behind is what follows a value of Slurm's that is known, and a blank.
func behind(s, value string) (rest string, ok bool) {
	if value != "" {
		if s, ok = strings.CutPrefix(s, value); ok && strings.HasPrefix(s, " ") {
			return s, true
		}
		return "", false
	}
	for _, none := range []string{"", "(null)", "N/A"} { // as squeue's reader takes them
		if rest, ok = strings.CutPrefix(s, none); ok && strings.HasPrefix(rest, " ") {
			return rest, true
		}
	}
	return "", false
}

// addWords adds the words KEY=VALUE that count, each of which has to stand there once.
func addWords(words map[string]string, text string, counts func(key string) bool) error {
	for word := range strings.FieldsSeq(text) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || !counts(key) {
			continue
		}
		if _, twice := words[key]; twice {
			return fmt.Errorf("%s= comes twice", key)
		}
		words[key] = value
	}
	return nil
}

// oneMemory makes sure that the memory is said once, in a form that is known.
func oneMemory(words map[string]string, head string) error {
	found := ""
	for word := range strings.FieldsSeq(head) {
		key, _, ok := strings.Cut(word, "=")
		if !ok || !strings.HasPrefix(key, "MinMemory") {
			continue
		}
		if _, known := words[key]; !known {
			return fmt.Errorf("%.40s= is no form of memory that priod knows", key)
		}
		if found != "" {
			return fmt.Errorf("%s= and %s= both stand there", found, key)
		}
		found = key
	}
	if found == "" {
		return fmt.Errorf("MinMemoryNode=, MinMemoryCPU= and MinMemoryTRES= are all missing")
	}
	return nil
}
