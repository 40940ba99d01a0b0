-- slurmprio on the login hosts (CliFilterPlugins=lua): sbatch, srun and salloc take the variables of sbatchwrap, SBATCHWRAP_TYPE=te
-- and so on, without the wrapper. Beside it: prio.lua. With a script of the site's own:
--
--   local prio = dofile("/etc/slurm/cli_filter_prio.lua")   -- this file under another name
--   function slurm_cli_pre_submit(options, offset) prio.pre_submit(options) ... return slurm.SUCCESS end
local M = { version = 1 }

local folder = (debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/")
local ok, tags = pcall(dofile, folder .. "prio.lua")
if not ok then tags = nil end

local keys = { "type", "grace", "ckpt", "signal", "workload", "speed", "cpu", "mem", "steps", "retry" }

local units = { s = 1, m = 60, h = 3600 }

-- digits is the number that a text of digits alone says; nil: it has others.
local function digits(s) return s ~= "" and not s:find("%D") and tonumber(s) or nil end

-- seconds reads a time as sbatch does, and as 90s or 1h30m; nil: it is none.
local function seconds(v)
  local dash = v:find("-", 1, true)
  local days, rest, n = dash and digits(v:sub(1, dash - 1)), v:sub((dash or 0) + 1), {}
  local colons = not (":" .. rest .. ":"):find("::", 1, true) and (days or not dash)
  for part in rest:gmatch("[^:]+") do
    n[#n + 1] = digits(part)
    colons = colons and digits(part)
  end
  if colons and #n <= 3 then
    local h, m, s = n[1], n[2], n[3]
    if not dash and #n < 3 then h, m, s = 0, n[1], n[2] end
    return (((days or 0) * 24 + h) * 60 + (m or 0)) * 60 + (s or 0)
  end
  if v:find("[^%dsmh]") then return nil end
  local sum = 0
  for part in v:gsub("[smh]", "%0 "):gmatch("%S+") do
    local count, unit = digits(part:sub(1, -2)), units[part:sub(-1)]
    if not count or not unit then return nil end
    sum = sum + count * unit
  end
  return sum
end

-- value is a variable's text in the tag's own form.
local function value(key, v)
  if #v > tags.max then return v end -- no tag holds it
  if key == "grace" or key == "ckpt" then
    local n = seconds(v)
    return n and n < 2 ^ 31 and string.format("%d", n) or v
  elseif key == "signal" then
    local shell, name = v:upper():match("^(B:)(.*)$")
    return (shell or "") .. (name or v:upper()):gsub("^SIG", "")
  elseif key == "type" or key == "retry" then
    return v:lower()
  end
  return v
end

-- pre_submit puts the tag of the environment into the comment, unless that has one.
function M.pre_submit(options)
  if not tags or tags.split(options["comment"]) then return end
  local said, some = {}, false
  for _, key in ipairs(keys) do
    local v = os.getenv("SBATCHWRAP_" .. key:upper():gsub("-", "_"))
    if v and v ~= "" then said[key], some = value(key, v), true end
  end
  local none = os.getenv("SBATCHWRAP_NONE")
  if none and none ~= "" and none:lower() ~= "no" then said, some = { type = "none" }, true end
  if not some then return end
  local tag, why = tags.encode(said)
  if not tag then
    slurm.log_error("prio: %s; the job is submitted without a tag", why)
    return
  end
  local own = options["comment"]
  options["comment"] = own and own ~= "" and tag .. " " .. own or tag
end

local unguarded = M.pre_submit
function M.pre_submit(...)
  local fine, why = pcall(unguarded, ...)
  if not fine then slurm.log_error("slurmprio: %s", tostring(why)) end
end

function slurm_cli_setup_defaults() return slurm.SUCCESS end

if not slurm_cli_pre_submit then
  function slurm_cli_pre_submit(options)
    M.pre_submit(options)
    return slurm.SUCCESS
  end
end

function slurm_cli_post_submit() return slurm.SUCCESS end

return M
