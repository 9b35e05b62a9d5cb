"""`weft explain --html` in a browser."""

import pytest
from conftest import explain, weft, write_chain


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.mark.parametrize("page", ["bert", "softmax"])
def test_opens_without_a_complaint(browser, page, scheme, request):
    browser.open(request.getfixturevalue(page), scheme=scheme)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.js("document.querySelectorAll('.figure').length") >= 5
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")


def test_stays_small(bert):
    assert bert.stat().st_size < 2_000_000


def test_lists_kernels_by_cost(browser, bert):
    browser.open(bert)
    order = browser.js("[...document.querySelectorAll('#kernel-rows tr')].map(row => row.id)")
    assert len(order) == 110
    costs = browser.js(
        "[...document.querySelectorAll('#kernel-rows tr')]"
        ".map(row => parseFloat(row.style.getPropertyValue('--share')))"
    )
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == 100


def test_a_link_to_a_kernel_shows_it(browser, bert):
    browser.open(bert, "#kernel-5")
    assert "Softmax" in browser.js("document.querySelector('#kernel-detail h3').textContent")
    assert browser.js("document.querySelector('#kernel-rows tr.selected').id") == "kernel-5"
    box, row = (
        "document.getElementById('kernel-list').getBoundingClientRect()",
        "document.getElementById('kernel-5').getBoundingClientRect()",
    )
    assert browser.js(f"{row}.top >= {box}.top && {row}.bottom <= {box}.bottom")


def test_every_link_leads_somewhere(browser, bert):
    browser.open(bert)
    links = browser.js(
        "[...new Set([...document.querySelectorAll('a')].map(a => a.getAttribute('href')))]"
    )
    assert len(links) > 100
    assert [link for link in links if not link.startswith("#")] == []
    missing = browser.js(f"""(async () => {{
        const missing = [];
        for (const link of {links}) {{
            location.hash = link;
            await new Promise(requestAnimationFrame);
            if (!document.getElementById(link.slice(1))) missing.push(link);
        }}
        return missing;
    }})()""")
    assert missing == []
    assert browser.complaints() == []


def test_a_node_lights_the_lines_that_make_it(browser, softmax):
    browser.open(softmax)
    lit = browser.js("""(() => {
        const nodes = [...document.querySelectorAll('#kernel-detail .nodes li')];
        return nodes.map(node => {
            node.dispatchEvent(new Event('mouseenter'));
            const lines = document.querySelectorAll('#kernel-detail pre:first-of-type .line.lit');
            return [...lines].map(l => l.textContent).join('');
        });
    })()""")
    assert all(lit)
    assert "exp(" in "".join(lit)
    assert len(set(lit)) == len(lit)


def test_search_finds_and_leads_there(browser, bert):
    browser.open(bert)
    browser.key("/")
    browser.type("layer.3 softmax")
    found = browser.js("[...document.querySelectorAll('#found .what')].map(e => e.textContent)")
    assert found
    assert all("layer.3" in text and "softmax" in text.lower() for text in found)
    browser.key("Enter")
    target = browser.js("location.hash.slice(1)")
    assert target.startswith(("kernel-", "node-"))
    assert browser.js("getComputedStyle(document.getElementById('found')).display") == "none"
    browser.key("/")
    browser.type("no such thing")
    assert "Nothing" in browser.js("document.getElementById('found').textContent")
    browser.key("Escape")
    browser.key("/")
    browser.type("27")
    browser.key("Enter")
    assert browser.js("location.hash") == "#kernel-27"
    assert browser.complaints() == []


def test_keys_walk_through_the_list(browser, bert):
    browser.open(bert)
    order = browser.js("[...document.querySelectorAll('#kernel-rows tr')].map(row => row.id)")
    browser.key("j")
    browser.key("j")
    browser.key("k")
    assert browser.js("location.hash") == "#" + order[1]


def test_an_edge_tells_its_verdict(browser, bert):
    browser.open(bert)
    point = browser.js("""(() => {
        const edge = document.querySelector('#graph-lines .edge.illegal .reach');
        const end = edge.getPointAtLength(edge.getTotalLength() - 6);
        const at = new DOMPoint(end.x, end.y).matrixTransform(edge.getScreenCTM());
        document.getElementById('graph').scrollIntoView();
        const moved = new DOMPoint(end.x, end.y).matrixTransform(edge.getScreenCTM());
        return [moved.x, moved.y];
    })()""")
    for kind in ("mousePressed", "mouseReleased"):
        browser.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=point[0],
            y=point[1],
            button="left",
            clickCount=1,
        )
    assert browser.js("location.hash").startswith("#edge-")
    detail = browser.js("document.getElementById('graph-detail').innerText")
    assert "illegal" in detail
    assert "What would change it" in detail
    assert browser.js("document.querySelectorAll('#graph-detail .reason').length") == 1
    assert browser.complaints() == []


def test_draws_the_arena_without_overlap(browser, bert):
    browser.open(bert)
    overlaps = browser.js("""(() => {
        const {bytes, blocks} = JSON.parse(document.getElementById('data').textContent).arena;
        let overlaps = 0;
        for (const [i, a] of blocks.entries()) {
            if (a[1] < 0 || a[1] + a[2] > bytes) ++overlaps;
            for (const b of blocks.slice(i + 1)) {
                const meet = a[3] <= b[4] && b[3] <= a[4];
                if (meet && a[1] < b[1] + b[2] && b[1] < a[1] + a[2]) ++overlaps;
            }
        }
        return overlaps;
    })()""")
    assert overlaps == 0
    assert browser.js("document.querySelectorAll('#arena rect.block').length") > 50


@pytest.fixture(scope="module")
def compared(softmax, tmp_path_factory):
    """A small page of everything, and the plan that it was compared with."""
    folder = tmp_path_factory.mktemp("compared")
    model = write_chain(folder / "chain.onnx", [f"n{i}" for i in range(12)])
    plan = folder / "none.plan"
    plan.write_bytes(weft("dump", model, "--stage", "plan", "--plan", "none"))
    return explain(model, folder / "page.html", "--measure", "--compare", str(plan))


def test_shows_what_was_measured(browser, compared):
    browser.open(compared)
    assert browser.js("document.querySelectorAll('#timeline .track').length") == 2
    texts = browser.js(
        "[...document.querySelectorAll('#kernel-rows td.measured')].map(cell => cell.textContent)"
    )
    assert texts
    assert all(text.endswith(("ns", "µs", "ms")) for text in texts)
    assert "Measured" in browser.js("document.getElementById('summary').textContent")


def test_compares_two_plans(browser, compared):
    browser.open(compared, "#comparison")
    assert "none.plan" in browser.js("document.querySelector('#comparison .lead').textContent")
    was = browser.js("document.querySelectorAll('#comparison .was li').length")
    now = browser.js("document.querySelectorAll('#comparison .now li').length")
    assert was == 12
    assert now == browser.js("document.querySelectorAll('#kernel-rows tr').length") < 12
    assert browser.complaints() == []


def test_holds_a_thousand_kernels(browser, tmp_path):
    model = write_chain(tmp_path / "m.onnx", [f"n{i}" for i in range(1000)])
    page = explain(model, tmp_path / "page.html", "--plan", "none")
    browser.open(page)
    rows = "document.querySelectorAll('#kernel-rows tr').length"
    assert 0 < browser.js(rows) <= 1000
    assert browser.js(f"""(async () => {{
        while ({rows} < 1000) await new Promise(done => setTimeout(done, 10));
        return {rows};
    }})()""") == 1000
    assert browser.complaints() == []
    browser.open(page, "#kernel-998")
    assert browser.js("document.querySelector('#kernel-rows tr.selected').id") == "kernel-998"
    assert page.stat().st_size < 2_000_000


def test_prints_all_but_the_graph(browser, softmax):
    browser.open(softmax)
    browser.call("Emulation.setEmulatedMedia", media="print")
    shown = browser.js(
        "[...document.querySelectorAll('main section')]"
        ".filter(s => s.offsetHeight > 0).map(s => s.id)"
    )
    browser.call("Emulation.setEmulatedMedia", media="")
    assert shown == ["summary", "kernels", "timeline"]


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 2">',
    "<!--<script>",
    "'};window.hacked=3;({'",
    "{{data}}",
    "\u202egnp.exe\u202c",
    "a\x01b\x1b[31m\u2028c",
    "/one with a slash in front",
    "javascript:window.hacked=4",
]


def test_hostile_names_are_inert(browser, tmp_path):
    model = write_chain(tmp_path / "<b>m.onnx", HOSTILE)
    page = explain(model, tmp_path / "page.html")
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.js("window.hacked") is None
    assert browser.js("document.querySelectorAll('main script, main img, main b b').length") == 0
    text = browser.js(
        "document.body.innerText"
        " + [...document.querySelectorAll('[title]')].map(e => e.title).join()"
    )
    assert "</script><script>window.hacked = 1</script>" in text
    assert "\\u{202e}gnp.exe" in text
    assert not set(text) & set("\u202e\u202c\x01\x1b\u2028")
    assert browser.js("document.title").startswith("<b>m.onnx")
