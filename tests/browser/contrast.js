// Visible texts whose contrast to what is behind them is below WCAG 2's AA: 4.5, large ones 3.
// Backgrounds are blended from the element up; texts inside an SVG stand on the SVG's background.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) =>
    [0, 1, 2].map((n) => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
  const background = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement)
      layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = getComputedStyle(element);
    const behind = background(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [one, two] = [luminance(over(rgba(ink), behind)), luminance(behind)];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5))
      faint.push(`${ratio.toFixed(2)} ${node.textContent.trim().slice(0, 60)}`);
  }
  return faint;
}
