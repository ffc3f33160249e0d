// Drawings can be saved, as they are on paper.  Explanations of terms close with Escape.  The page works without it.
// A dollar sign would be one of pandoc's templates, which this is a part of.
const PNG_SCALE = 3;

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function asSvg(drawing) {
  return new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" });
}

async function asPng(drawing) {
  const image = new Image(), address = URL.createObjectURL(asSvg(drawing));
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas"), size = drawing.viewBox.baseVal;
  canvas.width = Math.round(size.width * PNG_SCALE);
  canvas.height = Math.round(size.height * PNG_SCALE);
  const pen = canvas.getContext("2d");
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

for (const figure of document.querySelectorAll("figure.float-fig")) {
  const drawing = figure.querySelector(".drawing > .wide > svg");
  if (!drawing) continue;
  const name = (figure.closest("[id]")?.id ?? "figure").replace(/^fig-/, "");
  const label = figure.querySelector(".caption-label")?.textContent ?? "Figure";
  const bar = document.createElement("p");
  bar.className = "save";
  for (const [ending, make] of [["svg", asSvg], ["png", asPng]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = ending.toUpperCase();
    button.setAttribute("aria-label", "Save " + label + " as " + ending.toUpperCase());
    button.addEventListener("click", async () => download(await make(drawing), name + "." + ending));
    bar.append(button);
  }
  figure.append(bar);
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const term of document.querySelectorAll(".term:is(:hover, :focus)")) {
    term.classList.add("closed");
    for (const left of ["mouseleave", "blur"]) {
      term.addEventListener(left, () => term.classList.remove("closed"), { once: true });
    }
  }
});
