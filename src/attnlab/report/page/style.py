"""The page's own style: narrow and wide screens, dark mode, paper."""

CSS = """
:root { --ink: #1c1c1c; --soft: #595959; --paper: #ffffff; --shade: #f3f3f1; --line: #cfcfca; --link: #0b4f8a;
  --mark: #8a4b00; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e3; --soft: #a9a9a4; --paper: #17181a; --shade: #222427; --line: #44474b; --link: #8cc2f2;
    --mark: #f0b366; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans",
  sans-serif; }
header, main, footer, nav { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 0 0 .5rem; }
h3 { font-size: 1.08rem; margin: 1.6rem 0 .4rem; }
h4, h5, h6 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p, ul, dl { margin: .4rem 0 .8rem; max-width: 48rem; }
a { color: var(--link); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .86em; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; background: var(--shade); padding: .6rem .8rem; border-radius: 4px; margin: .4rem 0; }
small, .soft { color: var(--soft); font-size: .88em; }
section { border-top: 2px solid var(--line); padding: 1.4rem 0 1rem; }
section section { border-top: 0; padding: 0; }
nav ul { padding-left: 1.2rem; max-width: none; }
nav li { margin: .15rem 0; }
.protocol { border-left: 4px solid var(--mark); padding: .2rem 0 .2rem .8rem; }
.problems { border-left: 4px solid var(--mark); padding: .2rem 0 .2rem .8rem; margin: .8rem 0;
  overflow-wrap: anywhere; }
.problems ul { margin: .2rem 0; padding-left: 1.1rem; max-width: none; }
.mark { color: var(--mark); }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; }
.above { margin: 1rem 0 0; }
.above + .scroll { margin-top: 0; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: separate; border-spacing: 0; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem .4rem;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
td.n, th.n { text-align: right; }
td.n { white-space: nowrap; }
td.n small { white-space: normal; }
td small, th small { display: block; font-weight: normal; }
td.n > small { max-width: 16rem; margin-left: auto; }
th[scope=row], th[scope=rowgroup] { font-weight: 600; background: var(--paper); }
.scroll th:first-child { position: sticky; left: 0; background: var(--paper); }
.notes td { min-width: 4rem; max-width: 40rem; overflow-wrap: break-word; }
figure { margin: 1rem 0 1.4rem; }
figure img, .notes img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  padding: 4px; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .3rem; max-width: 48rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; max-width: none; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
dd pre { margin: 0 0 .3rem; }
details { margin: .6rem 0; }
summary { cursor: pointer; }
footer { padding-top: 1rem; padding-bottom: 2rem; color: var(--soft); font-size: .9rem; }
@media (max-width: 40rem) {
  body { font-size: 15px; }
  header, main, footer, nav { padding-left: .8rem; padding-right: .8rem; }
  table { font-size: .84rem; }
  th, td { padding-right: .45rem; }
  td.n > small { max-width: 9rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .5rem; }
}
@media print {
  :root { --ink: #000; --soft: #333; --paper: #fff; --shade: #f3f3f1; --line: #999; --link: #000; --mark: #000; }
  @page { margin: 15mm; }
  body { font-size: 10pt; }
  header, main, footer, nav { max-width: none; padding: 0; }
  table { font-size: 8.5pt; }
  .scroll { overflow: visible; }
  .scroll th:first-child { position: static; }
  th, td { padding: .15rem .4rem .15rem .2rem; }
  td.n { white-space: normal; }
  .notes td { max-width: none; overflow-wrap: anywhere; }
  thead { display: table-header-group; }
  tr, figure { break-inside: avoid; }
  h2, h3, h4, .above { break-after: avoid; }
  figure img { max-height: 22cm; }
  details { display: none; }
}
"""
