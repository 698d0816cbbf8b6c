-- The limits of one API key, all in one value, by the formula of bucket.rs.
--
-- The value is a packed list: limit (0: none), debt and time of the buckets of requests, input and
-- output; then name, running requests and lease's end of each node. A debt is in units of 1/limit
-- millisecond, as in the bucket, where it is the arrival minus the time. It is at most
-- 600,000 * 2^32, so that every number here is a whole one below 2^53 and exact.
--
-- ARGV: operation, node, its lease in ms, then
--   admit:  most concurrent (0: not counted), then limit (0: none) and count of each bucket
--   charge: the same for a request that was admitted already
--   settle: slots given back, then limit (0: none) and change of each bucket, negative to give back, then
--           what is owed of each at least before the change
--   renew:  requests running at the node
-- Returns: dimension that refuses (0: none), units too many (-1: never fits), the debts, and the requests
-- that run at other nodes.
local key, op, node, lease = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local WINDOW, MOST_WINDOWS = 60000, 10

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.pcall('GET', key)
if type(stored) == 'table' then
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
  stored = false
end

-- What was stored; nil if it is of something else, which is replaced.
local function unpacked()
  local is_packed, list = pcall(cmsgpack.unpack, stored)
  if not is_packed or type(list) ~= 'table' or #list < 9 or #list % 3 ~= 0 then return nil end
  for i, it in ipairs(list) do
    if type(it) ~= 'number' and (i < 10 or i % 3 ~= 1) then return nil end
  end
  return list
end
local state = stored and unpacked() or { 0, 0, 0, 0, 0, 0, 0, 0, 0 }

local function save()
  redis.call('SET', key, cmsgpack.pack(state), 'PX', WINDOW * MOST_WINDOWS + lease)
end

-- What is owed now of the bucket that begins at a place.
local function debt(at)
  local passed = now - state[at + 2]
  if passed < 0 then passed = 0 end
  if passed > WINDOW * MOST_WINDOWS then passed = WINDOW * MOST_WINDOWS end
  local left = state[at + 1] - passed * state[at]
  return left > 0 and left or 0
end

local function most(limit) return limit * WINDOW * MOST_WINDOWS end

local function set(at, limit, owed) state[at], state[at + 1], state[at + 2] = limit, owed, now end

-- The place of this node; nodes whose lease is over go. Also the requests of all nodes.
local function nodes()
  local place, running, at = nil, 0, 10
  while state[at] do
    if state[at + 2] <= now or state[at + 1] <= 0 then
      for _ = 1, 3 do table.remove(state, at) end
    else
      if state[at] == node then place = at end
      running = running + state[at + 1]
      at = at + 3
    end
  end
  return place or at, running
end

local function set_running(at, count)
  state[at], state[at + 1], state[at + 2] = node, count, now + lease
end

if op == 'renew' then
  local count = tonumber(ARGV[4])
  if stored or count > 0 then
    set_running((nodes()), count)
    save()
  end
  return { 0, 0 }
end

if op == 'settle' then
  if ARGV[4] ~= '0' then
    local at = nodes()
    if state[at] then set_running(at, state[at + 1] - ARGV[4]) end
  end
  for i = 1, 3 do
    local at, limit, change = 3 * i - 2, tonumber(ARGV[3 + 2 * i]), tonumber(ARGV[4 + 2 * i])
    if state[at] == 0 then state[at] = limit end
    local floor = limit > 0 and tonumber(ARGV[10 + i]) or 0
    local owed = math.max(debt(at), floor) + change * WINDOW
    if change < 0 then
      set(at, state[at], owed > 0 and owed or 0)
    elseif limit > 0 and (change > 0 or floor > 0) then
      set(at, state[at], math.min(owed, most(state[at])))
    end
  end
  save()
  return { 0, 0 }
end

local concurrent, place, running = tonumber(ARGV[4]), nil, nil
local answer, is_changed = { 0, 0, 0, 0, 0, 0 }, false
if concurrent > 0 then
  place, running = nodes()
  answer[6] = running - (state[place + 1] or 0)
  if running >= concurrent then
    answer[1] = 4
    -- Another dimension is not looked at, as in memory.
    if op == 'admit' then return answer end
  end
end

local costs = {}
for i = 1, 3 do
  local at, limit = 3 * i - 2, tonumber(ARGV[3 + 2 * i])
  if limit > 0 then
    local owed, cost = debt(at), ARGV[4 + 2 * i] * WINDOW
    if state[at] ~= limit then
      owed, is_changed = math.min(owed, most(limit)), true
      set(at, limit, owed)
    end
    answer[2 + i], costs[i] = owed, cost
    if answer[1] ~= 0 then
      -- The first limit that refuses counts.
    elseif cost > limit * WINDOW then
      answer[1], answer[2] = i, -1
    elseif owed + cost > limit * WINDOW then
      answer[1], answer[2] = i, owed + cost - limit * WINDOW
    end
  end
end
if answer[1] == 0 or op == 'charge' then
  for i, cost in pairs(costs) do
    local at = 3 * i - 2
    answer[2 + i] = math.min(answer[2 + i] + cost, most(state[at]))
    set(at, state[at], answer[2 + i])
  end
  if place then set_running(place, (state[place + 1] or 0) + 1) end
  save()
elseif is_changed then
  save()
end
return answer
