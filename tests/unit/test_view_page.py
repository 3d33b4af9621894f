"""The page in a real browser: it asks for nothing, complains of nothing, and its views are linked.

Skipped without Chromium, except for tests of the page's text.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import hybridjit
from browser import PROGRAM, Browser, BrowserError, browsing
from hybridjit import gluon, nd, sym
from hybridjit.cli import main
from hybridjit.compiler import PIPELINE
from hybridjit.errors import MXNetError
from hybridjit.gluon import nn
from hybridjit.ir.kinds import KIND_NAMED
from hybridjit.ir.node import topological
from hybridjit.viewing import Subject, compare, graphs, inference_document, write_page
from hybridjit.viewing.page import SCRIPTS, inert_json, page_text

PAGE = Path(hybridjit.__file__).parent / "viewing" / "page"
needs_browser = pytest.mark.skipif(not PROGRAM, reason="there is no Chromium")


class Branches(gluon.HybridBlock):
    """Two convolutions that meet, an operator without a kernel, a dense layer."""

    def __init__(self) -> None:
        super().__init__(prefix="net_")
        with self.name_scope():
            self.a = nn.Conv2D(8, 3, padding=1, in_channels=4)
            self.b = nn.Conv2D(8, 1, in_channels=4)
            self.norm = nn.BatchNorm(in_channels=8)
            self.out = nn.Dense(5, in_units=8 * 64)

    def hybrid_forward(self, F, x):
        x = F.relu(self.norm(self.a(x))) + self.b(x)
        return F.cumsum(self.out(x), axis=1)


@pytest.fixture(scope="module")
def net():
    net = Branches()
    net.initialize()
    return net


@pytest.fixture(scope="module")
def x():
    return nd.random.normal(shape=(1, 4, 8, 8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def page(net, x, folder):
    return hybridjit.view(net, x, path=folder / "net.html", profile=True, seconds=0.05)


@pytest.fixture(scope="module")
def trained(folder):
    net = nn.HybridSequential(prefix="dense_")
    net.add(nn.Dense(5, in_units=4, activation="sigmoid"), nn.Dense(3, in_units=5))
    net.initialize()
    return hybridjit.view(net, nd.ones((2, 4)), path=folder / "trained.html", train=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def opened(browser: Browser, path) -> Browser:
    """The page, open, without a complaint or a request."""
    browser.open(Path(path))
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    assert browser.problems == []
    assert browser.requests == [Path(path).resolve().as_uri()]
    return browser


class TestText:
    def test_data_is_inert_whatever_it_says(self):
        evil = "</script><!--<script>&\u2028\ud800"
        text = inert_json({evil: [evil]})
        assert not set("<>&") & set(text) and text.isascii()
        assert json.loads(text) == {evil: [evil]}

    def test_a_policy_that_loads_nothing(self, page):
        text = Path(page).read_text()
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy and policy[1].startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in policy[1] and "http" not in policy[1]

    def test_elements_are_those_of_the_template(self, net, x):
        """However things are called, there are as many elements, and none has a handler."""
        found = []

        class Elements(HTMLParser):
            def handle_starttag(self, tag, attrs):
                found.append((tag, sorted(key for key, _ in attrs)))

        evil = '"><img src=x onerror=alert(1)></title></script><script>alert(2)</script>'
        for title in ("plain", evil):
            found.append(("page", []))
            out = sym.relu(sym.var(title), name=title)
            given = {title: np.ones((2, 3), np.float32)}
            Elements().feed(page_text(inference_document(Subject(title, out.outputs, given, {}))))
        half = len(found) // 2
        assert found[:half] == found[half:]
        assert not any(key.startswith("on") for _, keys in found for key in keys)

    def test_no_script_takes_markup_or_code(self):
        words = (
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|fetch\("
        )
        for path in PAGE.glob("*.js"):
            assert not re.search(words, path.read_text()), path.name

    def test_scripts_are_strict_and_short(self):
        texts = {path.name: path.read_text() for path in PAGE.glob("*.js")}
        assert set(SCRIPTS) == texts.keys()
        assert sum(len(text.splitlines()) for text in texts.values()) < 2300
        for name, text in texts.items():
            assert text.startswith('"use strict";\n/* '), name
            assert not re.search(r"\bvar |[^=!]==[^=]|!=[^=]|\t", text), name
        whole = "\n".join(texts.values())
        for made in re.findall(r"^function (\w+)", whole, re.M):
            assert len(re.findall(rf"\b{made}\b", whole)) > 1, f"{made} is never called"

    @pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
    @pytest.mark.parametrize("path", sorted(PAGE.glob("*.js")), ids=lambda path: path.name)
    def test_scripts_are_well_formed(self, path):
        done = subprocess.run(["node", "--check", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_a_notebook_shows_the_page_in_a_sandboxed_frame(self, page):
        frame = page._repr_html_()
        assert frame.startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
        assert 'sandbox="allow-scripts"' in frame and frame.count('"') == 12

    def test_a_page_that_cannot_be_written_raises(self, tmp_path):
        out = sym.exp(sym.var("x"))
        subject = Subject("small", out.outputs, {"x": np.ones((2, 3), np.float32)}, {})
        with pytest.raises(MXNetError, match="no-such-folder"):
            write_page(inference_document(subject), tmp_path / "no-such-folder" / "page.html")

    def test_the_command_writes_a_page(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        sym.exp(sym.var("data")).save("small-symbol.json")
        words = ["view", "small-symbol.json", "--shape", "data=2,3"]
        assert main(words) == 0 and capsys.readouterr().out == "small.html\n"
        assert (tmp_path / "small.html").read_text().startswith("<!DOCTYPE html>")
        assert main([*words, "--json", "--open"]) == 2
        assert main([*words, "-o", "missing/page.html"]) == 1


def chosen(browser: Browser, selector: str) -> list[str]:
    """The marked elements of a view."""
    return browser.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => "
        "e.dataset.key || e.dataset.step || e.dataset.buffer || e.textContent)"
    )


@needs_browser
class TestInABrowser:
    def test_selecting_an_operator_selects_its_kernel_bytes_and_time(self, browser, page):
        opened(browser, page)
        browser.run("app.goTo(app.track.stops[1])")
        browser.settle()
        node = browser.run("app.graph.nodes.findIndex((n) => n.names[0] === 'net_batchnorm0_fwd')")
        browser.click(f"#node-{node} .box")
        assert browser.run("app.selection.id") == "net_batchnorm0_fwd"
        steps = browser.run("[...app.selection.steps]")
        assert len(steps) == 1
        for tab, selector, key in [
            ("time", "tr.chosen", f"step-{steps[0]}"),
            ("time", ".timeline .chosen", str(steps[0])),
            ("roofline", ".roofline .chosen", str(steps[0])),
        ]:
            browser.click(f"#tab-{tab}")
            assert chosen(browser, f"#panel-{tab} {selector}") == [key], (tab, selector)
        browser.click("#tab-memory")
        assert len(chosen(browser, "#panel-memory tr.chosen")) == 1
        browser.click("#tab-kernels")
        assert len(chosen(browser, "#panel-kernels tr.chosen")) == 1
        text = browser.run("document.getElementById('inspector').textContent")
        assert "x = F.relu(self.norm(self.a(x))) + self.b(x)" in text and "of peak" in text
        assert browser.problems == []

    def test_a_disturbed_profile_says_so(self, browser, page):
        opened(browser, page)
        for whole, is_off in (("total", False), ("total * 2", True)):
            browser.run(
                "(() => { const found = Model.first.part.profile; found.total = 1; found.start = 0;"
                f" found.whole = found.{whole}; app.seen.clear(); app.open('summary'); }})()"
            )
            text = browser.run("document.getElementById('panel-summary').textContent")
            assert ("Measure again" in text) == is_off

    def test_each_view_selects_in_the_others(self, browser, page):
        opened(browser, page)
        browser.click("#tab-parameters")
        browser.click("#panel-parameters tr[data-key='value-net_conv0_weight'] button")
        step = browser.run("[...app.selection.steps]")
        assert len(step) == 1 and len(chosen(browser, "#graph .node.chosen")) == 1
        browser.click("#tab-memory")
        browser.click("#panel-memory .buffer")
        assert browser.run("app.selection.type") == "buffer"
        assert chosen(browser, "#graph .node.related")
        browser.click("#tab-kernels")
        browser.click("#panel-kernels tbody tr:last-child button")
        assert browser.run("app.selection.type") == "kernel"
        browser.click("#tab-time")
        browser.click("#panel-time tbody tr:first-child button")
        assert browser.run("app.selection.id") == 0
        assert browser.problems == []

    def test_code_opens_at_its_hot_loop(self, browser, page):
        opened(browser, page)
        browser.run("app.select({type: 'step', id: 0})")
        browser.click("#inspector [data-which=assembly]")
        assert browser.run("document.querySelector('mark.hot').textContent.length") > 20
        browser.settle()
        below = browser.run(
            "document.querySelector('mark.hot').getBoundingClientRect().top"
            " - document.querySelector('pre.code').getBoundingClientRect().top"
        )
        assert 0 <= below < 100
        assert "mm" in browser.run("document.querySelector('pre.code').textContent")
        browser.click("#inspector [data-which=llvm]")
        assert "define" in browser.run("document.querySelector('pre.code').textContent")

    def test_the_slider_walks_all_stages(self, browser, page):
        opened(browser, page)
        browser.run("document.getElementById('slider').focus()")
        browser.run("app.goTo(app.track.stops[0])")
        seen = []
        for _ in range(browser.run("app.track.stops.length")):
            browser.settle()
            title = browser.run("document.querySelector('#stage-name b').textContent")
            nodes = browser.run("document.querySelectorAll('#graph .node').length")
            assert nodes > 1, title
            seen.append(title)
            browser.press("]")
        skippable = [row.name for row in PIPELINE if row.can_skip]
        names = ["trace", "infer", "training", *skippable]
        names += ["hoist", "bind"]
        names += ["fuse", "plan"]
        assert seen == names
        browser.run("app.goTo(app.track.stops.find((stop) => stop.title === 'fold-bn'))")
        browser.settle()
        assert chosen(browser, "#graph .node.changed")
        assert not chosen(browser, "#graph .node.added")  # they follow from parameters alone
        browser.click("#check-parameters")
        assert chosen(browser, "#graph .node.added")
        browser.click("#check-parameters")
        browser.click("#tab-stage")
        text = browser.run("document.getElementById('panel-stage').textContent")
        assert "Rules that fired" in text and "Removed" in text
        assert browser.problems == []

    def test_search_finds_and_selects_values(self, browser, page):
        opened(browser, page)
        browser.press("/")
        assert browser.run("document.activeElement.id") == "search"
        for letter in "net_conv1":
            browser.press(letter)
        hits = browser.run("[...document.querySelectorAll('#hits li')].map((e) => e.textContent)")
        assert hits and all("net_conv1" in hit for hit in hits)
        browser.press("Enter")
        assert browser.run("app.selection.id").startswith("net_conv1")

    def test_arrow_keys_walk_the_graph(self, browser, page):
        opened(browser, page)
        browser.run("app.graph.svg.focus()")
        walked = []
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
            browser.press(key)
            walked.append(browser.run("app.selection.id"))
        assert len(set(walked)) >= 3 and walked[-1] == walked[-3]
        assert browser.run("document.getElementById('said').textContent")
        before = browser.run("app.graph.camera.k")
        browser.press("+")
        assert browser.run("app.graph.camera.k") > before
        browser.press("Escape")
        assert browser.run("app.selection") is None
        browser.run("document.getElementById('tab-summary').focus()")
        browser.press("ArrowRight")
        assert browser.run("document.activeElement.id") == "tab-stage"
        assert (
            browser.run("document.querySelectorAll('[role=tab][aria-selected=true]').length") == 1
        )

    def test_groups_fold_and_unfold(self, browser, page):
        opened(browser, page)
        count = "app.graph.nodes.length"
        folded = browser.run(count)
        browser.run("app.select({type: 'step', id: 0})")
        browser.run("app.graph.svg.focus()")
        browser.press("Enter")
        assert browser.run(count) > folded
        browser.press("Enter")
        assert browser.run(count) == folded
        browser.click("#check-fold")
        assert browser.run(count) > folded
        browser.click("#check-parameters")
        assert browser.run("app.graph.nodes.some((node) => node.kind === 'parameter')")
        browser.click("#check-parameters")
        browser.click("#check-fold")

    def test_dragging_and_the_wheel_move_the_graph(self, browser, page):
        opened(browser, page)
        before = browser.run("({...app.graph.camera})")
        browser.mouse("mousePressed", 60, 600, button="left")
        browser.mouse("mouseMoved", 90, 570, button="left", buttons=1)
        browser.mouse("mouseReleased", 90, 570, button="left")
        after = browser.run("({...app.graph.camera})")
        assert (after["x"] - before["x"], after["y"] - before["y"]) == (30, -30)
        browser.mouse("mouseWheel", 200, 400, deltaX=0, deltaY=-200)
        assert browser.run("app.graph.camera.k") > after["k"]

    def test_names_for_screen_readers(self, browser, page):
        opened(browser, page)
        nameless = """[...document.querySelectorAll("button, input, svg[role], [role=tabpanel]")]
            .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label")
                || e.labels?.length || e.getAttribute("aria-labelledby"))).map((e) => e.outerHTML)
        """
        assert browser.run(nameless) == []
        assert browser.run("document.documentElement.lang") == "en"

    def test_both_themes_and_paper(self, browser, page):
        opened(browser, page)
        paper = "getComputedStyle(document.body).backgroundColor"
        for scheme, wanted in (("dark", "rgb(20, 23, 28)"), ("light", "rgb(255, 255, 255)")):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.send("Emulation.setEmulatedMedia", features=[feature])
            assert browser.run(paper) == wanted
        browser.click("#theme")
        assert browser.run(paper) == "rgb(20, 23, 28)"
        browser.run("app.drawAll()")
        printed = browser.send("Page.printToPDF")["data"]
        assert len(printed) > 10_000

    def test_training_pages_show_saved_values(self, browser, trained):
        opened(browser, trained)
        tracks = browser.run(
            "[...document.querySelectorAll('#tracks button')].map((e) => e.textContent)"
        )
        assert tracks == ["joint", "forward", "backward"]
        browser.click("#tab-training")
        text = browser.run("document.getElementById('panel-training').textContent")
        assert "are saved" in text and "SGD" in text
        for track in tracks:
            browser.click(f"[data-track={track}]")
            assert browser.run("document.querySelectorAll('#graph .node').length") > 2
        browser.run("app.showTrack(Model.tracks[0])")
        titles = browser.run("app.track.stops.map((stop) => stop.title)")
        assert "differentiate" in titles and titles[-1] == "partition"
        assert browser.problems == []

    def test_a_comparison(self, browser, net, x, folder):
        found = hybridjit.profiling.traced(net, x)
        subject = Subject(found.name, found.outputs, found.inputs, found.params)
        with hybridjit.override(target="sse2"):
            before = inference_document(subject)
        after = inference_document(subject)
        after["comparison"] = compare(before, after)
        opened(browser, write_page(after, folder / "compared.html"))
        browser.click("#tab-comparison")
        text = browser.run("document.getElementById('panel-comparison').textContent")
        assert "other kernel" in text and "arena" in text

    def test_two_networks_side_by_side(self, browser, net, x, folder):
        other = nn.HybridSequential(prefix="other_")
        other.add(nn.Conv2D(8, 3, in_channels=4), nn.Dense(5, in_units=8 * 36))
        other.initialize()
        path = folder / "both.html"
        hybridjit.view(net, x, path=path, profile=True, seconds=0.05, against=other)
        opened(browser, path)
        browser.click("#tab-comparison")
        found = {
            by: browser.run(
                f"[...document.querySelectorAll('#panel-comparison [data-by={by}] tbody tr')]"
                ".map((r) => [...r.cells].map((c) => c.textContent))"
            )
            for by in ("operator", "block", "kernel")
        }
        (row,) = [row for row in found["operator"] if row[0] == "Convolution"]
        (part,) = browser.run("Model.document.comparison.parts")
        seconds = [
            sum(c["seconds"][run] for c in part["changes"] if c["operators"][run] == "Convolution")
            for run in (0, 1)
        ]
        assert row[1:3] == ["1", "2"] and abs(float(row[5]) - seconds[1] / seconds[0]) < 0.01
        (only,) = [row for row in found["operator"] if "cumsum" in row[0]]
        assert only[1] == "" and only[2] == "1" and only[5] == ""
        for rows in found.values():
            for column, whole in zip((3, 4), part["seconds"]):
                total = sum(float(row[column] or 0) for row in rows)
                assert abs(total - 1e3 * whole) < 0.01

    def test_a_graph_too_large_to_draw_shows_its_table(self, browser, folder, monkeypatch):
        out = sym.var("x")
        for _ in range(40):
            out = sym.exp(out)
        subject = Subject("deep", out.outputs, {"x": np.ones((2, 3), np.float32)}, {})
        monkeypatch.setattr(graphs, "MOST_VALUES", 9)
        opened(browser, write_page(inference_document(subject), folder / "deep.html"))
        message = "document.getElementById('graph-message')"
        assert "too many values" in browser.run(f"{message}.textContent")
        browser.click("#tab-values")
        text = browser.run("document.getElementById('panel-values').textContent")
        assert "exp" in text and "40" in text

    def test_a_graph_with_more_nodes_than_are_drawn(self, browser, folder):
        """Values that can be listed and not drawn: the table has the first thousand."""
        out = sym.exp(sym.var("x"), name="y")
        subject = Subject("wide", out.outputs, {"x": np.ones((2, 3), np.float32)}, {})
        document = inference_document(subject)
        one = next(value for value in document["values"] if value["name"] == "y" and value["types"])
        places = range(len(document["values"]), len(document["values"]) + 4100)
        document["values"] += [{**one, "name": f"y{place}"} for place in places]
        for stage in document["parts"][0]["stages"]:
            stage["values"] += places
            stage["groups"] = []
        opened(browser, write_page(document, folder / "wide.html"))
        message = "document.getElementById('graph-message').textContent"
        assert "more than can be drawn" in browser.run(message)
        browser.click("#tab-values")
        assert browser.run("document.querySelectorAll('#panel-values tbody tr').length") == 1000
        browser.run("app.search.value = 'y2345'; app.find()")
        assert "y2345" in browser.run("document.getElementById('hits').textContent")

    def test_two_thousand_operators(self, browser, folder):
        out = sym.var("x")
        for i in range(1000):
            out = sym.cumsum(sym.exp(out), name=f"s{i}")
        subject = Subject("long", out.outputs, {"x": np.ones((2, 3), np.float32)}, {})
        opened(browser, write_page(inference_document(subject), folder / "long.html"))
        assert browser.run("app.graph.nodes.length") > 1900
        browser.run("app.graph.fit(true)")
        browser.settle()
        assert browser.run("document.querySelectorAll('#graph .node').length") > 1900
        assert browser.problems == []


HOSTILE = (
    '<script>alert(1)</script>', '</script><script>alert(1)</script>',
    '<img src=x onerror=alert(1)>', '"><svg onload=alert(1)>', "'onmouseover='alert(1)",
    'javascript:alert(1)', '<!--', '-->', ']]>', '<![CDATA[', '&lt;script&gt;',
    '&#60;script&#62;', '\\u003cscript>', '\x00', 'a\x00b', '\u202eevil', '\u2066a\u2069',
    '\u200f', '\u2028alert(1)//', '\u2029', '\ufeff', '\ud800', '__proto__', 'constructor',
    'toString', 'hasOwnProperty', 'prototype', "'; alert(1); '", '"; alert(1); "',
    '`${alert(1)}`', '{{scripts}}', '{{document}}', '</title>',
    '</style><script>alert(1)</script>', '<base href=//evil>',
    '<meta http-equiv=refresh content=0;url=//evil>',
    "<iframe srcdoc='<script>alert(1)</script>'>", '<a href=javascript:alert(1)>x</a>',
    '\r\n\r\n<html>', "x" * 3000, '%3Cscript%3E', '\U0001d54f\U0001f4a3',
)  # fmt: skip


@needs_browser
def test_forty_hostile_names_run_nothing(browser, folder, tmp_path):
    """Names of inputs, parameters, operators, attributes, files and lines; every view is opened."""
    assert len(HOSTILE) >= 40
    given = {}
    total = None
    for number, text in enumerate(HOSTILE):
        given[text] = np.ones((2, 3), np.float32)
        one = sym.exp(sym.var(text), name=f"{text}op")
        one._set_attr(**{"note": text})
        total = one if total is None else sym.elemwise_add(total, one, name=f"{text}+{number}")
    params = dict(list(given.items())[20:])
    inputs = dict(list(given.items())[:20])
    subject = Subject(HOSTILE[0], total.outputs, inputs, params)
    document = inference_document(subject, seconds=0.02)
    for place, value in enumerate(document["values"]):
        value["source"] = f"{HOSTILE[place % len(HOSTILE)]}:1 in f"
        value["attrs"] = {HOSTILE[place % len(HOSTILE)]: HOSTILE[-1 - place % len(HOSTILE)]}
        document["lines"][value["source"]] = HOSTILE[place % len(HOSTILE)]
    document["comparison"] = compare(document, document)
    opened(browser, write_page(document, folder / "hostile.html"))
    browser.run("window.alert = () => { throw new Error('alert was called'); }")
    elements = "document.querySelectorAll('script, img, iframe, base, meta, a, style').length"
    before = browser.run(elements)
    tabs = browser.run("[...document.querySelectorAll('[role=tab]')].map((e) => e.id)")
    for tab in tabs:
        browser.click(f"#{tab}")
    for stop in range(browser.run("app.track.stops.length")):
        browser.run(f"app.goTo(app.track.stops[{stop}])")
    values = browser.run("app.track.stops.flatMap((stop) => [...stop.values.keys()]).length")
    assert values > 40
    browser.run(
        "for (const id of new Set(app.track.stops.flatMap((stop) => [...stop.values.keys()])))"
        " app.select({type: 'value', id})"
    )
    browser.run("app.drawAll()")
    for text in ("script", "proto", "alert"):
        browser.run(f"app.search.value = {json.dumps(text)}; app.find()")
    browser.settle()
    assert browser.run(elements) == before
    assert browser.problems == []
    assert browser.requests == [(folder / "hostile.html").resolve().as_uri()]
    assert not re.search("[\u202e\u2066\u200f\x00]", browser.run("document.body.innerText"))


@needs_browser
def test_the_driver_detects_errors_of_a_page(browser, tmp_path):
    """A page that throws, and one whose request is blocked."""
    (tmp_path / "bad.html").write_text(
        "<script>fetch('file:///nothing'); throw Error('x')</script>"
    )
    browser.open(tmp_path / "bad.html")
    assert any("Error: x" in problem for problem in browser.problems)
    assert len(browser.requests) == 2
    with pytest.raises(BrowserError, match="nowhere"):
        browser.run("nowhere")


def test_an_installed_package_has_the_page_in_it():
    """All its files match the declarations in pyproject.toml."""
    text = (PAGE.parents[3] / "pyproject.toml").read_text()
    declared = re.search(r"package-data\]\nhybridjit = \[(.*)\]", text)
    assert declared
    package = PAGE.parents[1]
    found = {path for word in re.findall(r'"([^"]+)"', declared[1]) for path in package.glob(word)}
    assert {path for path in PAGE.rglob("*") if path.is_file()} <= found


class Deep(gluon.HybridBlock):
    """Two blocks of many layers, and an operator without a kernel."""

    def __init__(self) -> None:
        super().__init__(prefix="deep_")
        with self.name_scope():
            for number in (1, 2):
                stage = nn.HybridSequential(prefix=f"stage{number}_")
                with stage.name_scope():
                    stage.add(*(nn.Dense(8, in_units=8, activation="tanh") for _ in range(18)))
                setattr(self, f"stage{number}", stage)

    def hybrid_forward(self, F, x):
        return F.slice(F.cumsum(self.stage2(self.stage1(x)), axis=1), begin=(None, 0), end=(1, 4))


@pytest.fixture(scope="module")
def deep(folder):
    made = Deep()
    made.initialize()
    x = nd.random.normal(shape=(2, 8))
    hybridjit.view(made, x, path=folder / "deep.html", profile=True, seconds=0.02, train=True)
    return folder / "deep.html"


TITLES = "app.graph.nodes.map((node) => node.title)"
INSIDE = """(() => {
  const wrong = [];
  for (const tab of document.querySelectorAll("[role=tab]")) {
    app.open(tab.id.slice(4));
    const panel = document.querySelector(".panel:not([hidden])");
    for (const found of panel.querySelectorAll("details")) found.open = true;
    const edge = panel.getBoundingClientRect().right + 1;
    for (const cell of panel.querySelectorAll("th, td")) {
      const { right } = cell.getBoundingClientRect();
      if (right > edge) wrong.push([tab.id, cell.textContent.slice(0, 40)]);
    }
  }
  return wrong;
})()"""


def lanes_of(browser: Browser) -> list[list[list[float]]]:
    """Positions and widths of the bars of the time line, lane by lane, from above."""
    bars = browser.run(
        "[...document.querySelectorAll('.timeline .bar')].map((bar) =>"
        " ['y', 'x', 'width'].map((key) => +bar.getAttribute(key)))"
    )
    return [[bar[1:] for bar in bars if bar[0] == y] for y in sorted({bar[0] for bar in bars})]


@needs_browser
class TestWholeNetworks:
    """Blocks that fold, the map of the graph, labels, lanes, widths."""

    def test_blocks_fold_and_open_one_level(self, browser, deep):
        browser.open(deep)
        titles = browser.run(TITLES)
        assert titles.count("stage1") == 1 and titles.count("stage2") == 1 and len(titles) < 10
        browser.run('app.graph.toggle(app.graph.nodes.find((n) => n.title === "stage1"))')
        opened = browser.run(TITLES)
        assert "stage1" not in opened and "stage2" in opened and len(opened) > len(titles) + 10
        assert browser.run('document.querySelector("#opened button").dataset.block') == "stage1"
        browser.click("#opened button")
        assert browser.run(TITLES) == titles
        browser.run('document.getElementById("check-blocks").click()')
        assert len(browser.run(TITLES)) > 30 and browser.problems == []

    def test_blocks_of_flat_names_fold_by_the_tree_of_blocks(self, browser, folder):
        class Layer(gluon.HybridBlock):
            def __init__(self) -> None:
                super().__init__()
                self.inner, self.outer = nn.Dense(8, in_units=8), nn.Dense(8, in_units=8)

            def hybrid_forward(self, F, x):
                return self.outer(F.cumsum(self.inner(x), axis=1)) + x

        net = nn.HybridSequential()
        net.add(*(Layer() for _ in range(12)))
        net.initialize()
        browser.open(Path(hybridjit.view(net, nd.ones((2, 8)), path=folder / "flat.html")))
        assert browser.run(TITLES) == ["input", *(f"Layer[{number}]" for number in range(12))]
        assert "Layer[8]/inner" in browser.run("[...app.graph.tree.sizes.keys()]")

    def test_a_block_adds_up_its_steps(self, browser, deep):
        browser.open(deep)
        sums = browser.run(
            'app.graph.nodes.filter((n) => n.kind === "block").map((n) => [n.steps.size, n.time])'
        )
        assert all(steps >= 1 and seconds > 0 for steps, seconds in sums)
        whole = browser.run("app.track.part.profile.total")
        assert sum(seconds for _, seconds in sums) <= whole * 1.0001

    def test_saved_values_are_one_node_of_the_backward_graph(self, browser, deep):
        browser.open(deep)
        browser.run("app.showTrack(Model.tracks[2])")
        saved = browser.run('app.graph.nodes.filter((n) => n.block === "saved").map((n) => n.sub)')
        assert len(saved) == 1 and saved[0].endswith(" values")
        labels = browser.run("app.graph.edges.map((e) => [e.from, e.type])")
        assert len({type for from_, type in labels if type}) > 1
        counts = {from_: [t for f, t in labels if f == from_ and t] for from_, _ in labels}
        assert max(map(len, counts.values())) <= 3

    def test_titles_of_nodes_do_not_run_into_their_kinds(self, browser, deep):
        browser.open(deep)
        for track in range(browser.run("Model.tracks.length")):
            browser.run(f"app.showTrack(Model.tracks[{track}])")
            browser.run("app.graph.tree.opened.add('stage1'); app.graph.cache.clear()")
            browser.run("app.graph.show(app.track, app.stop, true); app.graph.zoom(2)")
            browser.settle()
            overlapping = browser.run(
                "[...document.querySelectorAll('#graph .node')].filter((node) => {"
                " const [title, lead] = ['.title', '.lead'].map((c) => node.querySelector(c));"
                " return lead && title.getBoundingClientRect().right"
                " > lead.getBoundingClientRect().left; }).map((node) => node.textContent)"
            )
            assert overlapping == []

    def test_blocks_before_fusion_count_values(self, browser, deep):
        browser.open(deep)
        browser.run("app.goTo(app.track.stops.find((stop) => stop.title === 'expand'))")
        subs = browser.run("app.graph.nodes.filter((n) => n.block).map((n) => n.sub)")
        assert subs and all(sub.endswith(" values") for sub in subs)

    def test_blocks_have_the_names_of_layers_that_batch_norms_were_folded_into(
        self, browser, folder
    ):
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            for _ in range(34):
                net.add(nn.Conv2D(3, 1, in_channels=3), nn.BatchNorm(in_channels=3))
        net.initialize()
        browser.open(Path(hybridjit.view(net, nd.ones((1, 3, 2, 2)), path=folder / "bn.html")))
        names = browser.run("app.graph.nodes.map((node) => node.block || node.sub)")
        assert len(names) > 30 and not [name for name in names if "batchnorm" in name]

    def test_a_search_opens_the_blocks_around(self, browser, deep):
        browser.open(deep)
        browser.run('app.search.value = "stage2_dense7"; app.find(); app.hits.firstChild.click()')
        browser.settle()
        assert browser.run("app.graph.current().block === undefined")
        assert "stage2_dense7" in browser.run("app.graph.current().names.join()")

    def test_the_map_shows_and_moves_the_part_in_sight(self, browser, deep):
        browser.open(deep)
        browser.run('document.getElementById("check-blocks").click()')
        browser.settle()
        frame = '+document.querySelector("#minimap .frame").getAttribute("y")'
        before = browser.run(frame)
        box = browser.run(
            '(() => { const b = document.getElementById("minimap").getBoundingClientRect();'
            "return [b.left + b.width / 2, b.bottom - 12]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            browser.mouse(kind, *box, button="left", buttons=1, clickCount=1)
        browser.settle()
        assert browser.run(frame) > before + 20
        browser.run("app.graph.fit(true)")
        browser.settle()
        assert browser.run('document.getElementById("minimap").hasAttribute("hidden")')

    def test_labels_at_every_zoom_do_not_overlap(self, browser, deep):
        browser.open(deep)
        browser.run('document.getElementById("check-blocks").click(); app.graph.fit(true)')
        browser.settle()
        boxes = browser.run(
            '[...document.querySelectorAll("#graph .labels text")].map((t) => {'
            "const b = t.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"
        )
        assert len(boxes) > 5
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] + 4 or b[3] <= a[1] + 4

    def test_types_of_edges_of_one_node_do_not_overlap(self, browser, folder):
        x = sym.var("x")
        both = sym.topk(x, k=2, ret_typ="both", dtype="int32")
        outs = sym.Group([sym.exp(both[0]), sym.clip(both[1], 0, 2)])
        given = {"x": np.ones((10**7, 3), np.float32)}
        document = inference_document(Subject("types", outs.outputs, given, {}))
        browser.open(Path(write_page(document, folder / "types.html")))
        browser.run("document.getElementById('check-fold').click()")
        browser.settle()
        boxes = browser.run(
            '[...document.querySelectorAll("#graph .edges text")].map((t) => {'
            "const b = t.getBoundingClientRect();"
            " return [t.textContent, b.left, b.top, b.right, b.bottom]; })"
        )
        assert {"f32[10000000,2]", "i64[10000000,2]"} <= {box[0] for box in boxes}
        for i, (_, *a) in enumerate(boxes):
            for _, *b in boxes[:i]:
                assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] + 4 or b[3] <= a[1] + 4

    @pytest.mark.parametrize("width", [1440, 1024, 390])
    def test_the_name_of_the_stage_is_whole(self, browser, deep, width):
        browser.open(deep, width=width)
        for stop in ("fuse", "plan", "partition"):
            track = int(stop != "partition")
            browser.run(f"app.showTrack(Model.tracks[{track}])")
            browser.run(f"app.goTo(app.track.stops.find((stop) => stop.title === '{stop}'))")
            assert browser.run(
                "(() => { const name = document.getElementById('stage-name');"
                " return name.scrollHeight <= name.clientHeight + 1; })()"
            ), stop

    @pytest.mark.parametrize("width", [1440, 1280, 1024])
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_no_column_is_cut_off(self, browser, deep, width, theme):
        browser.open(deep, width=width)
        browser.run(f"document.documentElement.dataset.theme = '{theme}'")
        for track in range(browser.run("Model.tracks.length")):
            browser.run(f"app.showTrack(Model.tracks[{track}])")
            assert browser.run(INSIDE) == []

    def test_a_telephone_scrolls_tables_and_nothing_else(self, browser, deep):
        browser.open(deep, width=390)
        browser.run(INSIDE)
        assert browser.run("document.documentElement.scrollWidth") <= 390

    def test_time_has_lanes_zoom_and_sums(self, browser, deep):
        browser.open(deep)
        browser.run("app.open('time')")
        assert len(lanes_of(browser)) == 2  # native code, and cumsum in Python
        width = "document.querySelector('.timeline').getBoundingClientRect().width"
        before = browser.run(width)
        browser.click(".zoom-in")
        assert browser.run(width) > 1.9 * before
        for kind in ("block", "operator", "kernel"):
            texts = browser.run(
                f"[...document.querySelectorAll('[data-by={kind}] tbody tr')].map((r) =>"
                " [...r.cells].map((c) => c.textContent))"
            )
            assert len(texts) >= 2
            total = sum(float(row[2]) for row in texts)
            assert abs(total - 1e3 * browser.run("app.track.part.profile.total")) < 0.01
            assert kind != "block" or {"stage1", "stage2"} <= {row[0] for row in texts}

    def test_lanes_have_names(self, browser, deep):
        browser.open(deep)
        browser.run("app.open('time')")
        said = browser.run("document.querySelector('#panel-time .tools').textContent")
        assert re.search(r"steps are native code on \d+ threads?; .*Python runs on the", said)
        names = browser.run("document.querySelector('.time-line > svg').textContent")
        assert names.startswith("steps") and names.endswith("Python")

    def test_each_thread_has_a_lane_with_its_times(self, browser, folder):
        net = nn.Dense(512, in_units=1024, prefix="wide_")
        net.initialize()
        with hybridjit.threads(2):
            page = hybridjit.view(
                *(net, nd.ones((64, 1024))), path=folder / "two.html", profile=True, seconds=0.05
            )
        opened(browser, page)
        browser.run("app.open('time')")
        steps, *threads = lanes_of(browser)
        (timed,) = browser.run("app.track.part.profile.parts")
        assert len(threads) == len(timed["spans"]) == 2
        scale = (steps[0][1] + 0.4) / timed["once"]  # units a second; a gap follows each bar
        for (lane,), (_, begin, end) in zip(threads, timed["spans"]):
            assert abs(lane[0] - scale * begin) < 0.01
            assert abs(lane[1] - scale * (end - begin)) < 0.5

    def test_keys_and_the_wheel_change_the_scale_of_time(self, browser, deep):
        browser.open(deep)
        browser.run("app.open('time')")
        wide = "document.querySelector('.timeline').getBoundingClientRect().width"
        before = browser.run(wide)
        browser.run("document.querySelector('.lanes').focus()")
        browser.press("+")
        assert browser.run(wide) > 1.9 * before
        box = browser.run(
            "(() => { const b = document.querySelector('.lanes').getBoundingClientRect();"
            " return [b.left + b.width / 2, b.top + 20]; })()"
        )
        browser.mouse("mouseWheel", *box, deltaX=0, deltaY=-100, modifiers=2)  # with Ctrl
        browser.settle()
        assert browser.run(wide) > 2.4 * before
        middle = "(() => { const b = document.querySelector('.lanes');"
        middle += " return (b.scrollLeft + b.clientWidth / 2) / b.scrollWidth; })()"
        assert abs(browser.run(middle) - 0.5) < 0.02
        browser.press("0")
        assert abs(browser.run(wide) - before) < 1

    @pytest.mark.parametrize("width", [390, 1440])
    def test_letters_in_charts_can_be_read(self, browser, deep, width):
        """At 390 pixels letters were 4.6 pixels high."""
        browser.open(deep, width, 844)
        browser.run("app.open('time')")
        scale = browser.run(
            "(() => { const chart = document.querySelector('.timeline');"
            " return chart.getBoundingClientRect().width / chart.viewBox.baseVal.width; })()"
        )
        assert 11 * scale > 8

    def test_every_kind_has_a_colour(self, browser, deep):
        """Attention and detection were black, which is invisible on the dark page."""
        browser.open(deep)
        kinds = [*KIND_NAMED, "host", "view", "block"]
        black = browser.run(
            f"{json.dumps(kinds)}.filter((kind) => {{"
            " const bar = s('rect', { class: `bar kind-${kind}` });"
            " document.getElementById('graph').append(bar);"
            " const fill = getComputedStyle(bar).fill;"
            " bar.remove(); return fill === 'rgb(0, 0, 0)'; })"
        )
        assert black == []

    def test_short_times_keep_their_digits(self, browser, deep):
        browser.open(deep)
        found = browser.run("[time(0), time(1.234e-7), time(2.5e-5), time(0.0125)]")
        assert found == ["0 ms", "0.12 µs", "0.0250 ms", "12.500 ms"]

    def test_rates_have_units(self, browser, deep):
        browser.open(deep)
        assert browser.run("[-2, 0, 3, 5, 7, 9, 11, 13].map(powerOfTen)") == [
            "0.01", "1", "1 k", "100 k", "10 M", "1 G", "100 G", "10 T"
        ]  # fmt: skip

    def test_training_has_a_plot_of_its_parts(self, browser, deep):
        browser.open(deep)
        browser.run("app.open('training')")
        label = browser.run("document.querySelector('.stacked').getAttribute('aria-label')")
        assert all(part in label for part in ("forward", "backward", "update"))
        reasons = browser.run(
            "[...document.querySelectorAll('#panel-training td.wide')].map((e) => e.textContent)"
        )
        assert reasons and all(reason.startswith("read by ") for reason in reasons)

    def test_saved_values_have_units(self, browser, folder):
        net = nn.HybridSequential(prefix="wide_")
        net.add(nn.Dense(512, in_units=4, activation="sigmoid"), nn.Dense(3, in_units=512))
        net.initialize()
        browser.open(
            Path(hybridjit.view(net, nd.ones((8, 4)), path=folder / "wide.html", train=True))
        )
        browser.run("app.showTrack(Model.tracks[1])")
        browser.run("app.open('memory')")
        said = browser.run("document.getElementById('panel-memory').textContent")
        assert "is saved, 16.4 KB: " in said

    def test_none_is_none(self, deep):
        assert "begin=(None,0)" in deep.read_text() or '"(None,0)"' in deep.read_text()


def test_lines_of_the_zoo_are_those_of_its_layers():
    found = gluon.model_zoo.vision.resnet18_v1()
    found.initialize()
    order = topological(found._traced([nd.ones((1, 3, 64, 64))]).outputs)
    lines = {node.source for node in order if node.op is not None}
    assert len(lines) > 1 and all("resnet.py:" in line for line in lines)
