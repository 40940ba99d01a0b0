package tests

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"slurmprio/tests/lab"
)

// mostLuaWork is what one call of our Lua files may cost slurmctld, in instructions of Lua and bytes that its string library
// looks at: about 1 ms. Instructions are counted by debug.sethook; the string library is C, so each call of it counts
// the bytes of its text, and their square where the pattern is not linear in them.
const mostLuaWork = 100_000

// luaWork is a job_submit.lua that calls ours with random jobs, whose texts have up to 1 MB in each field, and writes a line
// for each of our functions: its name, the most work of a call, the longest call in us. The job's name is the seed.
const luaWork = `
local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
local work = 0

local gsub, find, rep = string.gsub, string.find, string.rep
local function linear(pattern)
  local p = gsub(gsub(gsub(pattern, "%%[bf]", "**"), "%%.", "x"), "%[%^?.[^%]]*%]", "x")
  local _, repeated = gsub(p, "[*+-]", "")
  return repeated == 0 or repeated == 1 and (find(p, "^%^") or find(p, "[*+-][()]*$")) ~= nil
end

local function charge(n)
  work = work + n
  if n > 1e6 then error("too much work", 3) end
end

local real, seen = {}, {}
local function counted(name, of)
  real[name] = string[name]
  string[name] = function(s, p, ...) -- what sub copies is charged where it is looked at
    charge(of(s, p, ...))
    return real[name](s, p, ...)
  end
end
local function scan(s, p, _, plain)
  if seen[p] == nil then seen[p] = linear(p) end
  return (plain == true or seen[p]) and #s or #s * #s
end

local fragments = { "gpu:", "gpu", "1", "9", "a100", ",", ":", "=", "x", "%", "%41", "&", "-", ".", " ", "prio:", "speed=", "a:1", "+", "/", "\255", "p1,", "h", "m", "1s" }
local keys = { "type", "grace", "ckpt", "signal", "workload", "speed", "cpu", "mem", "steps", "give-back", "retry", "v", "guess", "share", "x" }
local sizes = { 0, 1, 3, 20, 200, 500, 1000, 1024, 1025, 20000, 1e6 }
local function pick(list) return list[math.random(#list)] end
local function text()
  local size, fragment = pick(sizes), pick(fragments)
  local head, tail = pick({ "", "gpu:", pick(fragments) }), pick({ "", "x", pick(fragments) })
  return head .. rep(fragment, math.floor(math.max(0, size - #head - #tail) / #fragment)) .. tail
end
local function comment()
  if math.random(3) == 1 then return text() end
  local t = text()
  return "prio:" .. pick(keys) .. "=" .. (math.random(4) > 1 and t:sub(1, 480 + math.random(40)) or t)
end
local texts = { "partition", "default_partition", "account", "default_account", "qos", "default_qos", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task",
  "gres", "req_nodes", "reservation", "dependency", "prefer", "script" }
local function job()
  local j = {}
  for _, field in ipairs(texts) do if math.random(3) == 1 then j[field] = text() end end
  if math.random(2) == 1 then j.partition = pick({ "p1", string.rep("p1,", 341), "p2,p3" }) end
  if math.random(2) == 1 then j.comment = comment() end
  j.time_limit, j.begin_time, j.priority = pick({ 5, slurm.NO_VAL, 1e6 }), 0, pick({ 0, slurm.NO_VAL })
  return j
end

function slurm_job_modify() return slurm.SUCCESS end
function slurm_cli_pre_submit() return slurm.SUCCESS end
function slurm_job_submit(real_job)
  local errors, env = {}, {}
  slurm.log_user = function(f, ...) string.format(f, ...) end
  slurm.log_info = function(f, ...) errors[#errors + 1] = string.format(f, ...) end
  slurm.log_error = function(f, ...) if f:find("^slurmprio") then slurm.log_info(f, ...) end end
  os.getenv = function(name) return env[name] end
  local submit, filter = dofile(folder .. "prio_submit.lua"), dofile(folder .. "prio_filter.lua")
  local calls = {
    submit = function() local j = job() return function() submit.submit(j, 1000) end end,
    modify = function() local j, r = job(), { job_state = 1, comment = comment() } return function() submit.modify(j, r, 1000) end end,
    filter = function()
      local options = { comment = math.random(2) == 1 and comment() or nil }
      env = {}
      for _, key in ipairs(keys) do if math.random(3) == 1 then env["SBATCHWRAP_" .. key:upper():gsub("-", "_")] = text() end end
      return function() filter.pre_submit(options) end
    end,
  }
  for said, want in pairs({ ["90"] = "5400", ["90s"] = "90", ["1h30m"] = "5400", ["2:30"] = "150", ["1:02:03"] = "3723", ["1-2"] = "93600", ["1-2:03"] = "93780",
    ["1-2:03:04"] = "93784", ["1-2-3"] = false, ["1::2"] = false, [":5"] = false, ["1-"] = false, ["h"] = false, ["1h 2m"] = false, ["1:2:3:4"] = false, ["99999999999999999999"] = false }) do
    local options = {}
    env = { SBATCHWRAP_GRACE = said }
    filter.pre_submit(options)
    if options.comment ~= (want and "prio:grace=" .. want .. "&v=1" or nil) then errors[#errors + 1] = said .. ": " .. tostring(options.comment) end
  end
  local typed = { partition = "p1", account = "b", tres_per_node = "gres:gpu:a100", script = "x", begin_time = 0, priority = slurm.NO_VAL }
  submit.submit(typed, 1000)
  if typed.begin_time ~= 0 then errors[#errors + 1] = "one a100 is no job of one GPU" end
  local out = io.open(real_job.work_dir .. "/work", "w")
  local function each(name, before, after)
    math.randomseed(tonumber(real_job.name))
    for _ = 1, 12 do
      local call = calls[name]()
      collectgarbage("stop")
      before()
      call()
      after()
      collectgarbage("restart")
    end
  end
  for _, name in ipairs({ "find", "match", "gmatch", "gsub" }) do counted(name, scan) end
  for _, name in ipairs({ "lower", "upper", "format" }) do counted(name, function(s) return #tostring(s) end) end
  local most, began, longest = {}, 0, 0
  for name in pairs(calls) do
    most[name] = 0
    each(name, function() work = 0; debug.sethook(function() work = work + 10 end, "", 10) end, function()
      debug.sethook()
      most[name] = math.max(most[name], work)
    end)
  end
  for name, f in pairs(real) do string[name] = f end
  for name, units in pairs(most) do
    longest = 0
    if units < 1e6 then
      each(name, function() began = os.clock() end, function() longest = math.max(longest, os.clock() - began) end)
    end
    out:write(name, string.format(" %.0f %.0f", units, longest * 1e6), "\n")
  end
  for i = 1, math.min(#errors, 9) do out:write("error ", errors[i]:sub(1, 300), "\n") end
  out:close()
  return slurm.SUCCESS
end
`

// Whatever a user submits costs slurmctld at most 1 ms in our Lua files, and Slurm's own check of lengths answers the user.
func TestLuaWork(t *testing.T) {
	t.Parallel()
	const rules = `return { hold = 20, te_minutes = 60, default_partition = "p1", classes = {
  { name = "a", type = "te", partitions = { "p1", "p2" }, accounts = { "a" }, max_minutes = 10 }, { name = "b", type = "te", partitions = { "p1" }, max_gpus = 4, interactive = true },
  { name = "c", type = "te", qos = { "q" } }, { name = "d", type = "te", partitions = { "p1" }, accounts = { "b" }, max_gpus = 1 } },
  consents = { { gpu_type = true, size = true, partitions = { "p1" }, qos = { "q" } }, { gpu_type = true, size = true } } }`
	l := lab.ForTest(t, lab.Options{NoAccounting: true, Nodes: []lab.NodeSpec{{Count: 1, GPUType: "a100", GPUs: 4}}, ExtraConf: []string{"JobSubmitPlugins=lua"}, ExtraFiles: map[string]string{
		"prio.lua": luaFile(t, "prio.lua"), "prio_rules.lua": rules, "prio_submit.lua": luaFile(t, "job_submit.lua"), "prio_filter.lua": luaFile(t, "cli_filter.lua"),
		"job_submit.lua": luaWork,
	}})
	dir, work, longest := filepath.Join(l.Dir, "work"), map[string]int{}, map[string]int{}
	for seed := range 20 {
		if out, err := l.Command(t.Context(), "sbatch", "--chdir="+dir, "--hold", "--output=/dev/null", "--job-name="+strconv.Itoa(seed), "--wrap", "true").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "work"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if f[0] == "error" {
				t.Errorf("seed %d: one of our functions fails: %s", seed, line)
				continue
			}
			units, err := strconv.Atoi(f[1])
			us, err2 := strconv.Atoi(f[2])
			if err != nil || err2 != nil || units > mostLuaWork {
				t.Errorf("seed %d: %s costs %s, at most %d are wanted", seed, f[0], f[1], mostLuaWork)
			}
			work[f[0]], longest[f[0]] = max(work[f[0]], units), max(longest[f[0]], us)
		}
	}
	t.Logf("the most work of a call: %v; the longest call in us: %v", work, longest)
	if len(work) != 3 {
		t.Errorf("measured: %v", work)
	}

	// The attack on a slurmctld with our file: the text is as long as an argument can be.
	if err := os.WriteFile(filepath.Join(l.Dir, "etc", "job_submit.lua"), []byte(luaFile(t, "job_submit.lua")), 0o644); err != nil {
		t.Fatal(err)
	}
	held, err := l.Sbatch(t.Context(), "--hold", "--output=/dev/null", "--gres=gpu:1", "--wrap", "true")
	if err != nil {
		t.Fatal(err)
	}
	attack := l.Command(t.Context(), "sbatch", "--hold", "--output=/dev/null", "--gres=gpu:"+strings.Repeat("1", 120_000)+"x", "--wrap", "true")
	var attacked strings.Builder
	attack.Stdout, attack.Stderr = &attacked, &attacked
	if err := attack.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := l.Run(t.Context(), "scontrol", "release", held); err != nil {
		t.Errorf("scontrol release beside the attack: %v: %s", err, out)
	}
	if err := attack.Wait(); err == nil || strings.Contains(attacked.String(), "timed out") {
		t.Errorf("the attack: %v: %.300s", err, attacked.String())
	}
	t.Logf("Slurm said %.200s", attacked.String())
}
