"""The style and the script of a report's page: light and dark, and readable on a phone's width."""

STYLE = """
:root{color-scheme:light dark;--fg:#1f2328;--bg:#ffffff;--panel:#f6f8fa;--line:#d0d7de;--muted:#59636e;
--measured:#0969da;--expected:#8250df;--best:#1a7f37;--guess:#bc4c00;--bound:#9a6700;
--series0:#0969da;--series1:#1a7f37;--series2:#bc4c00;--series3:#8250df;--series4:#bf3989;--series5:#0e7490;
--series6:#9a6700;--series7:#57606a;--roof0:#8c959f;--roof1:#6e7781;--roof2:#57606a;--roof3:#24292f}
@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--panel:#161b22;--line:#30363d;--muted:#9198a1;
--measured:#58a6ff;--expected:#bc8cff;--best:#3fb950;--guess:#f0883e;--bound:#d29922;
--series0:#58a6ff;--series1:#3fb950;--series2:#f0883e;--series3:#bc8cff;--series4:#f778ba;--series5:#39c5cf;
--series6:#d29922;--series7:#8b949e;--roof0:#6e7681;--roof1:#8b949e;--roof2:#b1bac4;--roof3:#f0f6fc}
pre span{filter:brightness(1.9)}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main{max-width:1100px;margin:0 auto;padding:0 16px}
h1{font-size:1.4rem;margin:16px 0 0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:32px 0 8px;border-bottom:1px solid var(--line)}
h3{font-size:.95rem;margin:18px 0 4px;overflow-wrap:anywhere}
header>details{margin:2px 0 12px;color:var(--muted);overflow-wrap:anywhere;font-size:.85rem}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:8px;margin:0}
dl div{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:8px 12px;overflow-wrap:anywhere}
dt{color:var(--muted);font-size:.8rem}dd{margin:0;font-weight:600}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin:14px 0;font-size:.9rem}
a{color:var(--measured)}
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{overflow-wrap:anywhere}small{color:var(--muted);font-weight:400}
.code,.wide{overflow-x:auto;border:1px solid var(--line);border-radius:8px;background:var(--panel)}
.code{padding:0 12px}.wide pre{padding:0 12px}
.picture{width:100%;min-height:240px}
table{border-collapse:collapse;width:100%;font-size:.88rem}
td,th{padding:4px 8px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.choice td:first-child{width:38%}.bar{width:34%}
.bar svg{display:block;width:100%;height:12px;margin-top:5px}
.sure{fill:var(--measured)}.bound{fill:var(--bound);opacity:.5}
th button{all:unset;cursor:pointer;font-weight:600;white-space:nowrap}
th button:focus-visible{outline:2px solid var(--measured)}
th[aria-sort=ascending] button::after{content:" \\2191"}th[aria-sort=descending] button::after{content:" \\2193"}
.winner{background:color-mix(in srgb,var(--best) 16%,transparent)}
summary{cursor:pointer}details{min-width:9em}
@media(max-width:640px){header,main{padding:0 10px}.bar{display:none}.choice td:first-child{width:50%}}
"""

# For what a notebook shows, whose own theme has the colours.
NOTEBOOK_STYLE = """
.metasched-report .bar svg{display:block;width:10em;height:10px}
.metasched-report .sure{fill:#0969da}.metasched-report .bound{fill:#9a6700;opacity:.5}
.metasched-report .n{text-align:right}.metasched-report td,.metasched-report th{text-align:left;padding:1px 8px}
.metasched-report th button{all:unset}.metasched-report .wide{max-height:28em;overflow:auto}
"""

# Pictures are drawn anew when the theme changes; the headings of the table sort it, by numbers where there are some.
SCRIPT = """
"use strict";
(() => {
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const themed = value => {
    if (typeof value === "string") return /^\\$[a-z]+[0-9]?$/.test(value) ? colour(value.slice(1)) || value : value;
    if (Array.isArray(value)) return value.map(themed);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, themed(inner)]));
    return value;
  };
  const axis = given => ({gridcolor: colour("line"), zerolinecolor: colour("line"), ...given});
  const draw = () => document.querySelectorAll("[data-picture]").forEach(place => {
    const picture = pictures[place.dataset.picture];
    const layout = picture.layout;
    Plotly.react(place, themed(picture.data), {
      ...themed(layout),
      xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: {color: colour("fg")},
      margin: {l: 56, r: 12, t: 12, b: 48},
      legend: {orientation: "h", y: innerWidth < 640 ? -0.32 : -0.22, yanchor: "top"},
      hoverlabel: {bgcolor: colour("panel"), font: {color: colour("fg")}},
    }, {responsive: true, displayModeBar: false});
  });
  draw();
  dark.addEventListener("change", draw);
  document.querySelectorAll("table.sortable").forEach(table => {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, at) => head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => {
        const cell = row.cells[at], value = cell.dataset.v;
        return value === undefined ? cell.textContent : value === "" ? null : Number(value);
      };
      const order = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b);
      [...body.rows].map(row => [key(row), row]).sort(([a], [b]) =>
        a === null ? (b === null ? 0 : 1) : b === null ? -1 : down ? order(b, a) : order(a, b)
      ).forEach(([, row]) => body.append(row));
    }));
  });
})();
"""
