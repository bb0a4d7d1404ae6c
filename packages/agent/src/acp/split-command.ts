/** The words of a command line by the quoting of a POSIX shell; undefined when a quote is not closed. */
export function splitCommand(line: string): string[] | undefined {
  const words: string[] = []
  let word: string | undefined
  let rest = line
  while (rest !== '') {
    const [text = '', blank, single, double, escaped, plain] =
      /^(?:(\s+)|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+))/.exec(rest) ?? []
    if (text === '') return undefined
    rest = rest.slice(text.length)
    if (blank === undefined) {
      const piece = single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped ?? plain ?? ''
      word = (word ?? '') + piece
    } else if (word !== undefined) {
      words.push(word)
      word = undefined
    }
  }
  return word === undefined ? words : [...words, word]
}
