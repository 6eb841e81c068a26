"use strict";
// Draws the charts, in the colours of the style sheet, and draws them anew when those or the abscissa change.
(async () => {
  const holders = [...document.querySelectorAll(".plot")];
  if (!holders.length) return;
  let charts;
  try {
    charts = JSON.parse(await wmrlUnpack("charts-packed"));
    const library = document.createElement("script");
    library.textContent = await wmrlUnpack("plotly-packed");
    document.head.append(library);
  } catch (error) {
    return wmrlFail(error);
  }

  const cost = document.getElementById("cost");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");

  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function coloured(value) {
    if (typeof value === "string") {
      const match = /^var\((--[\w-]+)\)$/.exec(value);
      return match ? variable(match[1]) : value;
    }
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
    }
    return value;
  }

  function axis(own) {
    const rule = variable("--rule");
    return {
      gridcolor: rule, zerolinecolor: rule, linecolor: rule, automargin: true, ...own,
      title: { ...(own && own.title), font: { size: 12 } },
    };
  }

  function draw(holder) {
    const chart = charts.find((one) => one.key === holder.dataset.chart);
    const learning = chart.key.startsWith("learning-");
    const data = coloured(chart.data).map((trace) => {
      const xs = learning && trace.meta ? trace.meta.x[cost.value] : undefined;
      return xs ? { ...trace, x: xs } : trace;
    });
    const layout = {
      height: 280, dragmode: touch.matches ? false : "zoom", hovermode: "closest",
      margin: { l: 48, r: 12, t: 12, b: 44 },
      ...coloured(chart.layout),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: variable("--ink"), size: 12, family: "system-ui, sans-serif" },
      hoverlabel: { bgcolor: variable("--raised"), bordercolor: variable("--rule"), font: { color: variable("--ink") } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal", bgcolor: "rgba(0,0,0,0)" },
      xaxis: axis(chart.layout.xaxis),
      yaxis: axis(chart.layout.yaxis),
    };
    if (learning) layout.xaxis.title.text = cost.selectedOptions[0].textContent;
    if (layout.showlegend !== false && innerWidth < 700) {
      layout.height += 20 * data.filter((trace) => trace.showlegend !== false).length; // one entry a line
    }
    const options = {
      responsive: true, displaylogo: false, displayModeBar: touch.matches ? false : "hover",
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // none that sends anything anywhere
    };
    return Plotly.react(holder, data, layout, options);
  }

  const drawAll = () => Promise.all(holders.map(draw)).then(() => {
    document.documentElement.dataset.charts = dark.matches ? "dark" : "light";
  });
  cost.addEventListener("change", drawAll);
  dark.addEventListener("change", drawAll);
  drawAll().catch(wmrlFail);
})();
