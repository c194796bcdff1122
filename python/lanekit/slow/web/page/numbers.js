// Numbers as axes and read-outs show them; the same rules as the desktop's.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A number with as many digits as people read; a dash for none. */
export function numberText(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return grouped.format(value);
  if (size >= 1e15 || size < 1e-4) return shortened(value);
  const decimals = Math.min(7, Math.max(0, 3 - Math.floor(Math.log10(size))));
  return new Intl.NumberFormat("en-US", { maximumFractionDigits: decimals }).format(value);
}

function shortened(value) {
  return String(Number(value.toPrecision(3)));
}

/** Round numbers between two: at most so many gaps, of 1, 2 or 5 times a power of 10. */
export function ticks(low, high, most, whole = false) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span) || most < 1) return [];
  const least = (span / most) * (1 - 1e-9);
  const power = 10 ** Math.floor(Math.log10(least));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least);
  if (whole) step = Math.max(1, step);
  const found = [];
  for (let number = Math.ceil(low / step - 1e-9); number <= Math.floor(high / step + 1e-9); number += 1) {
    found.push(number * step);
  }
  return found;
}

/** Ticks as texts with the same number of decimals, large ones in k, M or G. */
export function tickTexts(values) {
  if (!values.length) return [];
  const step = values.length > 1 ? values[1] - values[0] : Math.abs(values[0]) || 1;
  const largest = Math.max(...values.map(Math.abs));
  const [unit, sign] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([each]) => largest >= 10 * each) ?? [1, ""];
  if (largest / unit >= 1e6 || step < 1e-6) return values.map(shortened);
  const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const format = new Intl.NumberFormat("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return values.map((value) => format.format(Number((value / unit).toFixed(decimals)) + 0) + sign);
}

/** An axis' ends with some air around the numbers; for none, 0 to 1. */
export function padded(low, high) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  const flat = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  const air = flat ? Math.max(0.5, Math.abs(high) * 0.05) : (high - low) * 0.06;
  return [low - air, high + air];
}

/** How long ago something was, in the largest unit that fits. */
export function ageText(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${seconds} s`;
}
