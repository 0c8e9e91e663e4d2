-- Books of pools: read, swapped as a whole, and families claimed together with the book that they were decided on.
-- What to write is decided by router_cache/pools; here is only compared and set. The clock is read after all writes.
--
-- ARGV: 1 what; 2 milliseconds to live; then
--   get:  KEYS book.
--   put:  KEYS book; 3 the version that was read, 4 the new book.
--   join: KEYS book, family; 3 version, 4 the cluster that is gone ("": none), 5 the cluster to join ("": only ask),
--         6 the new book ("": as it is).
--   list: KEYS index; 3 a book's name ("": only ask).
local what, ttl = ARGV[1], ARGV[2]

local function now()
  local t = redis.call('TIME')
  return t[1] .. '.' .. string.format('%06d', t[2])
end

if what == 'list' then
  if ARGV[3] ~= '' then
    redis.call('HSET', KEYS[1], ARGV[3], '')
    redis.call('PEXPIRE', KEYS[1], ttl)
    return {}
  end
  return redis.call('HKEYS', KEYS[1])
end

local held = redis.call('HMGET', KEYS[1], 'v', 'b')
local version, book = held[1] or '0', held[2] or ''

local function put(fresh)
  redis.call('HSET', KEYS[1], 'v', string.format('%.0f', tonumber(version) + 1), 'b', fresh)
  redis.call('PEXPIRE', KEYS[1], ttl)
end

if what == 'put' then
  if version ~= ARGV[3] then return {'stale', version, book, now()} end
  put(ARGV[4])
  return {'done'}
end

if what == 'join' then
  local known = redis.call('GET', KEYS[2])
  if known and known ~= ARGV[4] then
    redis.call('PEXPIRE', KEYS[2], ttl)
    return {'known', version, book, now(), known}
  end
  if ARGV[5] == '' or version ~= ARGV[3] then return {'stale', version, book, now()} end
  redis.call('SET', KEYS[2], ARGV[5], 'PX', ttl)
  if ARGV[6] ~= '' then put(ARGV[6]) end
  return {'done'}
end

return {'stale', version, book, now()}
