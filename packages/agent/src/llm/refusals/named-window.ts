/** How servers name their limit; N is its number. */
const wordings = [
  'maximum context length (?:is|of) N',
  'context (?:size|length|window)(?: of| is|:)?(?: only)? N',
  'context limit: [\\d,+ ]+ > N',
  '> N maximum',
  'must be <= N',
  'token limit:? N',
  'maximum prompt length is N',
  'maximum number of tokens allowed N',
  'maximum model length of N',
  'input length should be \\[1, N\\]',
].map((wording) => new RegExp(wording.replace(' N', ' [("]?(\\d[\\d,._]*\\d)'), 'i'))

/** The numbers of tokens that a refusal names as the window, by the likeliest wording first. */
export function namedWindows(detail: string): readonly number[] {
  return wordings.flatMap((wording) => {
    const digits = wording.exec(detail)?.[1]
    return digits === undefined ? [] : [Number(digits.replace(/[,._]/g, ''))]
  })
}
