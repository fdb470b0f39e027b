test("every issue is placed, also after one that cannot be", function(t)
    t:set("issues", {
        { id = 1, labels = {} },
        { id = 2, labels = { "wish" } },
        { id = 3, labels = { "bug", "wish" } },
    })
    t:equal(t:run(), BT.SUCCESS)
    t:equal(t:get("unclear")[1], 1)
    t:equal(t:get("later")[1], 2)
    t:equal(t:get("urgent")[1], 3)
    t:equal(t:visits("script:open"), 3)
    t:equal(t:visits("script:add"), 1)
end)

test("no issues, nothing to do", function(t)
    t:set("issues", {})
    t:equal(t:tick(), BT.SUCCESS)
    t:equal(t:visits("script:open"), 0)
end)
