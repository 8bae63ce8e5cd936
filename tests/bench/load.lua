-- wrk sends the bodies of a file, one for each request, and every answer is checked. Arguments: bodies, content expected in an answer,
-- "cycle" (begin again), "once" (the bodies must be enough) or "follow" (an answer's refresh_token makes the next body), the file that
-- gets the access tokens or device codes as forms (or "-"), the status expected. A body may begin with a DPoP proof and a tab.

local REFRESH = "grant_type=refresh_token&refresh_token="
local POLL = "grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code="
local bodies, first, last, mode, expected, kept, wanted = {}, 1, 0, "cycle", "", nil, 200
local threads = {}
wrong, missing = 0, 0

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  if args[1] ~= "-" then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
    for line in io.lines(args[1]) do
      last = last + 1
      bodies[last] = line
    end
  end
  expected, mode, wanted = args[2], args[3], tonumber(args[5])
  if args[4] ~= "-" then
    kept = io.open(args[4], "w")
    kept:setvbuf("full", 65536)
  end
end

function request()
  if last == 0 then
    return wrk.format()
  end
  if first > last and mode == "cycle" then
    first = 1
  end
  if first > last then
    missing = missing + 1
    return wrk.format(nil, nil, nil, "")
  end
  local body = bodies[first]
  if mode ~= "cycle" then
    bodies[first] = nil
  end
  first = first + 1
  local proof, rest = body:match("^(.-)\t(.*)$")
  if proof then
    wrk.headers["DPoP"] = proof
    body = rest
  end
  return wrk.format(nil, nil, nil, body)
end

function response(status, headers, body)
  if status ~= wanted or not body:find(expected, 1, true) then
    wrong = wrong + 1
    if wrong == 1 then
      io.stderr:write("answered ", status, ": ", body, "\n")
    end
    return
  end
  if mode == "follow" then
    last = last + 1
    bodies[last] = REFRESH .. body:match('"refresh_token":"([^"]+)"')
  end
  if kept then
    local token = body:match('"access_token":"([^"]+)"')
    kept:write(token and "token=" .. token or POLL .. body:match('"device_code":"([^"]+)"'), "\n")
  end
end

function done(summary, latency, requests)
  local bad, lacking = 0, 0
  for _, thread in ipairs(threads) do
    bad, lacking = bad + thread:get("wrong"), lacking + thread:get("missing")
  end
  local errors = summary.errors
  print(string.format(
    '\n{"requests": %d, "seconds": %f, "wrong": %d, "missing": %d, "errors": %d, "p50_ms": %f, "p99_ms": %f}',
    summary.requests, summary.duration / 1e6, bad, lacking, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
