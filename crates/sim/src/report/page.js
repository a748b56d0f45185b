// Shows the numbers under the pointer, and the same moment in every chart of the row.
for (const row of document.querySelectorAll(".charts")) {
  const figures = [...row.querySelectorAll("figure")].map((figure) => ({
    figure,
    svg: figure.querySelector("svg"),
    cursor: figure.querySelector(".cursor"),
    output: figure.querySelector("output"),
    curves: [...figure.querySelectorAll("data")].map((data) => ({
      name: data.dataset.name,
      values: data.value.split(" "),
    })),
  }));
  const clear = () => figures.forEach(({ cursor, output }) => {
    cursor.setAttribute("hidden", "");
    cursor.style.display = "none";
    output.textContent = "";
  });
  const show = (event) => {
    const svg = event.target.closest("svg");
    if (!svg) return clear();
    const box = svg.getBoundingClientRect();
    const { left, right, width } = svg.dataset;
    const x = ((event.clientX - box.left) / box.width) * width;
    const part = (x - left) / (right - left);
    if (part < 0 || part > 1) return clear();
    for (const { figure, cursor, output, curves } of figures) {
      const { step, end, unit } = figure.dataset;
      const point = Math.min(Math.floor((part * end) / step), Math.round(end / step) - 1);
      const place = Number(left) + (right - left) * Math.min(1, ((point + 0.5) * step) / end);
      cursor.setAttribute("transform", `translate(${place} 0)`);
      cursor.removeAttribute("hidden");
      cursor.style.display = "";
      const values = curves.map(({ name, values }) => `${name} ${values[point] ?? 0}${unit}`);
      const seconds = Math.round(point * step * 100) / 100;
      output.textContent = `${seconds} s: ${values.join(", ")}`;
    }
  };
  clear();
  row.addEventListener("pointermove", show);
  row.addEventListener("pointerleave", clear);
}
