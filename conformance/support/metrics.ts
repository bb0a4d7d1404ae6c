/** The value of a series in the text of `/metrics`; NaN when it is missing. */
export function readSeries(metrics: string, series: string): number {
  const line = metrics.split('\n').find((line) => line.startsWith(`${series} `))
  return Number(line?.slice(series.length))
}
