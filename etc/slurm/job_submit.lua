-- slurmprio on the controller (JobSubmitPlugins=lua). It changes nothing but a begin time and, of jobs that run, a tag that their
-- user wants to change; it never stops a submission. Alone: copy this file, prio.lua and "priod config lua" (as prio_rules.lua) beside slurm.conf.
-- With a script of the site's own:
--
--   local prio = dofile("/etc/slurm/job_submit_prio.lua")   -- this file under another name
--   function slurm_job_submit(job, parts, uid) prio.submit(job, uid) ... return slurm.SUCCESS end
--   function slurm_job_modify(job, rec, parts, uid) prio.modify(job, rec, uid) ... return slurm.SUCCESS end
local M = { version = 1 }

local folder = (debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/")

-- load reads a file of ours; nil when it is missing or broken, which stops nothing.
local function load(name)
  local ok, got = pcall(dofile, folder .. name)
  if ok and type(got) == "table" then return got end
  slurm.log_info("slurmprio: %s%s cannot be read: %s", folder, name, tostring(got))
end

local tags, rules = load("prio.lua"), load("prio_rules.lua") or {}

local most = 1024 -- bytes: Slurm refuses longer texts, after it asked this file

-- tables of names become sets.
for _, rule in ipairs({ rules.classes or {}, rules.consents or {} }) do
  for _, x in ipairs(rule) do
    for _, field in ipairs({ "partitions", "accounts", "qos" }) do
      local names = x[field] and {}
      for _, name in ipairs(x[field] or {}) do names[name] = true end
      x[field] = names
    end
  end
end

local function set(n) -- a number that the job names
  return n and n ~= slurm.NO_VAL and n ~= slurm.NO_VAL64 and n ~= 4294967295
end

-- texts are what the job says in the fields of that name; nil: one is longer than Slurm takes.
local function texts(job, fields)
  local all = {}
  for _, field in ipairs(fields) do
    local text = job[field] or ""
    if #text > most then return nil end
    all[#all + 1] = text
  end
  return all
end

-- gpus is how many GPUs the job asks for (1 where the number does not tell), and whether it names their type; nil: too long.
local function gpus(job)
  local count, typed = 0, false
  local asked = texts(job, { "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres" })
  for item in table.concat(asked or {}, ","):gmatch("[^,]+") do
    local at = item:find("gpu", 1, true)
    if at and (at + 2 == #item or item:find("^[:=/]", at + 3)) then
      local n = 1
      for part in item:sub(at + 3):gmatch("[^:=/]+") do
        if part:find("%D") then typed = true else n = tonumber(part) end
      end
      count = math.max(count, n)
    end
  end
  return asked and count, typed
end

-- place is where the job goes: its partitions, its account and its QOS, where it names none the default; nil: too long.
local function place(job)
  local said = texts(job, { "partition", "account", "qos" })
  if not said then return nil end
  local function of(i, default) return said[i] ~= "" and said[i] or default or "" end
  local p = { partitions = {}, account = of(2, job.default_account), qos = of(3, job.default_qos) }
  for name in of(1, job.default_partition or rules.default_partition):gmatch("[^,]+") do table.insert(p.partitions, name) end
  return p
end

local function fits(rule, p)
  if rule.partitions then
    for _, name in ipairs(p.partitions) do if not rule.partitions[name] then return false end end
  end
  if rule.accounts and not rule.accounts[p.account] then return false end
  return not rule.qos or rule.qos[p.qos] ~= nil
end

-- class is what a rule makes of a job without a type, and the rule's name.
local function class(job, p, count, interactive)
  for _, rule in ipairs(rules.classes or {}) do
    local timed = not rule.max_minutes or set(job.time_limit) and job.time_limit <= rule.max_minutes
    local named = not rule.job_name -- a regular expression: priod looks at names, not this script
    if timed and named and (not rule.max_gpus or count <= rule.max_gpus) and fits(rule, p) and (not rule.interactive or interactive()) then
      return rule.type, rule.name
    end
  end
end

-- submit looks at one submission.
function M.submit(job, uid)
  if not tags then return end
  local text = tags.split(job.comment)
  local said, why = {}, nil
  if text then
    said, why = tags.parse(text)
    if not said then
      slurm.log_user("prio: %s; the job counts as untagged", why)
      return
    end
  end
  local count, typed = gpus(job)
  local p = place(job)
  if not count or not p then return end
  local scripted
  local function interactive() -- reads the script once, and only where it matters: it may be long
    if scripted == nil then scripted = job.script ~= nil end
    return not scripted
  end
  local kind = said.type or class(job, p, count, interactive)
  if kind == "te" and said.type then
    if not set(job.time_limit) and rules.te_minutes then
      slurm.log_user("prio: no time limit: the job counts as best effort; add --time=%d or less", rules.te_minutes)
    elseif set(job.time_limit) and rules.te_minutes and job.time_limit > rules.te_minutes then
      slurm.log_user("prio: time limit above %d minutes: the job counts as best effort", rules.te_minutes)
    end
  end
  if kind == "te" or kind == "none" or count == 0 or not rules.hold or rules.hold == 0 then return end
  local own = { "req_nodes", "reservation", "dependency", "deadline", "prefer" }
  for _, field in ipairs(own) do
    local v = job[field]
    if v and v ~= "" and v ~= 0 then return end
  end
  if set(job.begin_time) and job.begin_time > 0 or job.priority == 0 or interactive() then return end
  local steers, sizes = said.speed or said.workload, said.cpu or said.mem or said.workload
  for _, c in ipairs(rules.consents or {}) do
    if fits(c, p) then
      steers, sizes = steers or c.gpu_type, sizes or c.size
      break
    end
  end
  if steers and not typed or sizes then job.begin_time = os.time() + rules.hold end
end

-- modify keeps users from turning the type of a job that runs. priod and operators write no comments.
function M.modify(job, rec, uid)
  if not tags or not job.comment or uid == 0 or not rec or rec.job_state ~= 1 then return end
  local function kind(comment)
    local text = tags.split(comment)
    return text and (tags.parse(text) or {}).type or ""
  end
  if kind(job.comment) ~= kind(rec.comment) then
    job.comment = rec.comment
    slurm.log_user("prio: the type of a job that runs stays as it is")
  end
end

-- guarded calls f, and lets no error out.
local function guarded(f)
  return function(...)
    local ok, why = pcall(f, ...)
    if not ok then slurm.log_info("slurmprio: %s", tostring(why)) end
  end
end
M.submit, M.modify = guarded(M.submit), guarded(M.modify)

if not slurm_job_submit then
  function slurm_job_submit(job, _, uid)
    M.submit(job, uid)
    return slurm.SUCCESS
  end
end
if not slurm_job_modify then
  function slurm_job_modify(job, rec, _, uid)
    M.modify(job, rec, uid)
    return slurm.SUCCESS
  end
end

return M
