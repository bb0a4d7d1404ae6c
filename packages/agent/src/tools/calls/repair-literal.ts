/** Thrown at the first character that cannot be read. */
class LiteralError extends Error {
  override readonly name = 'LiteralError'
}

const maxDepth = 500
const words: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['null', null],
  ['None', null],
])
const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' }

/**
 * The value of a text that is nearly JSON: literals of Python and JavaScript, trailing commas, raw control
 * characters, a fence around it, the same value twice. Undefined when it could be read in two ways or not at
 * all, so also for a text that ends too early.
 */
export function parseLiteral(text: string): unknown {
  const fenced = /^\s*```[a-z]*\s*\n([\s\S]*?)\n?\s*```\s*$/i.exec(text)?.[1] ?? text
  try {
    const values = new LiteralReader(fenced).readAll()
    const [first, ...others] = values.filter((value, _, all) => all.length === 1 || !isEmptyObject(value))
    return others.every((other) => JSON.stringify(other) === JSON.stringify(first)) ? first : undefined
  } catch (error) {
    if (error instanceof LiteralError) return undefined
    throw error
  }
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

class LiteralReader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  readAll(): unknown[] {
    const values: unknown[] = []
    this.#skipBlanks()
    while (this.#at < this.#text.length) {
      values.push(this.#readValue())
      this.#skipBlanks()
    }
    return values
  }

  #readValue(): unknown {
    this.#skipBlanks()
    const char = this.#text[this.#at]
    if (char === '"' || char === "'") return this.#readString(char)
    if (char === '{') return this.#nested(() => this.#readObject())
    if (char === '[') return this.#nested(() => this.#readArray())
    const [token] = this.#match(/[\w.+-]+/y)
    if (words.has(token)) return words.get(token)
    if (/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(token)) return Number(token)
    throw new LiteralError()
  }

  #nested<T>(read: () => T): T {
    if (this.#depth >= maxDepth) throw new LiteralError()
    this.#depth++
    this.#at++
    const value = read()
    this.#depth--
    return value
  }

  #readObject(): Record<string, unknown> {
    const entries = new Map<string, unknown>()
    while (!this.#take('}')) {
      const quote = this.#text[this.#at]
      const key =
        quote === '"' || quote === "'" ? this.#readString(quote) : this.#match(/[A-Za-z_$][\w$]*/y)[0]
      // Which of two members counts is not clear.
      if (entries.has(key) || !this.#take(':')) throw new LiteralError()
      entries.set(key, this.#readValue())
      if (!this.#take(',') && this.#peek() !== '}') throw new LiteralError()
    }
    return Object.fromEntries(entries)
  }

  #readArray(): unknown[] {
    const values: unknown[] = []
    while (!this.#take(']')) {
      values.push(this.#readValue())
      if (!this.#take(',') && this.#peek() !== ']') throw new LiteralError()
    }
    return values
  }

  #readString(quote: string): string {
    let value = ''
    for (this.#at++; this.#at < this.#text.length; this.#at++) {
      const char = this.#text[this.#at] ?? ''
      if (char === quote) {
        this.#at++
        return value
      }
      value += char === '\\' ? this.#readEscape() : char
    }
    throw new LiteralError()
  }

  /** An escape that no language has stays as it is written, as in Python: `\d` of a regular expression. */
  #readEscape(): string {
    const char = this.#text[++this.#at] ?? ''
    if (char === 'u' || char === 'x') {
      const digits = char === 'u' ? 4 : 2
      const code = this.#text.slice(this.#at + 1, this.#at + 1 + digits)
      if (!/^[0-9a-fA-F]+$/.test(code) || code.length !== digits) throw new LiteralError()
      this.#at += digits
      return String.fromCharCode(Number.parseInt(code, 16))
    }
    if (Object.hasOwn(escapes, char)) return escapes[char] ?? ''
    if (char === '"' || char === "'" || char === '\\' || char === '/' || char === '\n') return char
    return `\\${char}`
  }

  #match(pattern: RegExp): RegExpExecArray {
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#text)
    if (match === null) throw new LiteralError()
    this.#at = pattern.lastIndex
    return match
  }

  #peek(): string | undefined {
    this.#skipBlanks()
    return this.#text[this.#at]
  }

  #take(char: string): boolean {
    if (this.#peek() !== char) return false
    this.#at++
    this.#skipBlanks()
    return true
  }

  #skipBlanks(): void {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at++
  }
}
