-- A release: check on all platforms, at most two at once; publish, with retries if the network fails; roll back if all
-- attempts failed. The tools are shell commands that the caller names:
--
--     signalbox tree run examples/trees/release.lua --journal release.journal \
--         --tool check='echo checked' --tool publish='echo published' --tool roll-back='echo rolled back'

local function check(platform)
    return BT.timeout(600, BT.tool("check-" .. platform, { tool = "check", args = { platform = platform } }))
end

return BT.tree("release", {
    blackboard = { version = { type = "string", default = "1.0.0" }, outcome = "string" },
    root = BT.selector({
        BT.sequence("release", {
            BT.parallel("checks", { max_concurrent = 2, check("linux"), check("macos"), check("windows") }),
            BT.selector({
                BT.retry({ attempts = 3, backoff = 1 }, BT.timeout(60,
                    BT.tool("publish", { args = { version = BT.key("version") } }))),
                -- it may be half published: roll back, and fail in any case
                BT.always_fail(BT.tool("roll-back", { args = { version = BT.key("version") } })),
            }),
            BT.script("done", function(t) t:set("outcome", "released " .. t:get("version")) end),
        }),
        BT.always_fail(BT.script("not-released", function(t) t:set("outcome", "not released") end)),
    }),
})
