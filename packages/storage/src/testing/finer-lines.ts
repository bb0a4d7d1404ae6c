/** Events with moments that are finer than instants, in order of position. */
export const finerLines: readonly string[] = [
  '2026-03-01T10:00:00.0000009Z',
  '2026-03-01T10:00:00.0000001Z',
  '2026-03-01T12:00:00.00000050+02:00',
  '2026-03-01T10:00:00.000001Z',
  '1600-01-01T00:00:00.000002Z',
  '1600-01-01T00:00:00.000001Z',
  // Earlier versions rounded it to the next 50 ms.
  '4600-02-28T12:00:00.049999Z',
  '4600-02-28T12:00:00.0499981Z',
].map((timestamp, at) =>
  JSON.stringify({
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: 'user', content: [{ type: 'text', text: `line ${at}` }] },
    timestamp,
    id: `e${at + 1}`,
  }),
)

/** Their positions in order of time. */
export const finerOrder = [6, 5, 2, 3, 1, 4, 8, 7]
