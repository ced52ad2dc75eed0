-- "Fastest first" in Lua, written anew from what was published of the idea: smooth weighted round robin with weights that follow
-- response times. Its laws:
--   1. the larger the response time, the smaller the weight;
--   2. an unavailable server gets the smallest weight, since it may be back at any moment;
--   3. weights are set anew only when a response time leaves the range seen when they were set;
--   4. every server keeps some traffic, so that the fastest is found.
-- What was not published is chosen here: weights in inverse proportion, the fastest has 100; times are smoothed by a tenth.

local balancer = require "ngx.balancer"
local shared = ngx.shared.balancer

local TOP, LEAST, SMOOTH = 100, 1, 0.1

local M = {}
local peers = {}
-- Each worker turns on its own; weights are common to all, and taken over when their version has changed.
local weights, current, version = {}, {}, -1

function M.init(list)
    peers = list
    shared:set("version", 0)
end

local function refresh()
    local now = shared:get("version") or 0
    if now == version then return end
    version = now
    for i = 1, #peers do
        weights[i] = shared:get("w" .. i) or TOP
        current[i] = current[i] or 0
    end
end

local function turn()
    local total, best = 0, nil
    for i = 1, #peers do
        current[i] = current[i] + weights[i]
        total = total + weights[i]
        if best == nil or current[i] > current[best] then best = i end
    end
    current[best] = current[best] - total
    return best
end

function M.pick()
    refresh()
    local i = turn()
    ngx.ctx.peer = i
    local ok, err = balancer.set_current_peer(peers[i][1], peers[i][2])
    if not ok then ngx.log(ngx.ERR, "no server: ", err) end
end

-- Law 1 and 2: weights from the times of all servers that have one; others stay at the top, to be tried.
local function weigh()
    local least, most = math.huge, 0
    for i = 1, #peers do
        local t = shared:get("t" .. i)
        if t and not shared:get("down" .. i) then
            least, most = math.min(least, t), math.max(most, t)
        end
    end
    if least == math.huge then return end
    for i = 1, #peers do
        local t, weight = shared:get("t" .. i), TOP
        if shared:get("down" .. i) then
            weight = LEAST
        elseif t then
            weight = math.max(LEAST, math.floor(TOP * least / t + 0.5))
        end
        shared:set("w" .. i, weight)
    end
    shared:set("least", least)
    shared:set("most", most)
    shared:incr("version", 1)
end

function M.log()
    local i = ngx.ctx.peer
    local took = tonumber(ngx.var.upstream_response_time)
    local status = tonumber(ngx.var.upstream_status)
    if not i or not took or not status then return end
    local down = shared:get("down" .. i)
    if status >= 500 then
        if not down then
            shared:set("down" .. i, true)
            weigh()
        end
        return
    end
    -- nginx counts in milliseconds; below that every time is as good as half of one.
    took = math.max(took, 0.0005)
    local before = shared:get("t" .. i)
    local t = before and before + SMOOTH * (took - before) or took
    shared:set("t" .. i, t)
    if down then shared:delete("down" .. i) end
    local least, most = shared:get("least"), shared:get("most")
    -- Law 3.
    if down or not before or not least or t < least or t > most then weigh() end
end

return M
