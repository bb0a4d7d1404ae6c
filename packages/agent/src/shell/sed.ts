import type { SecurityRisk } from '@slipway/protocol'
import { unknownText } from './words.ts'

/**
 * One harmless piece of a sed script: an address or separator, a substitution or transliteration, a text, a
 * label, a comment, a command without arguments.
 */
const harmlessPiece = new RegExp(
  [
    String.raw`[\s;{}\d$~+,!${unknownText}]+`,
    String.raw`\/(?:\\.|\[\^?\]?[^\]]*\]|[^\\/[])*\/[IM]*`,
    String.raw`\\([^\w\s])(?:\\.|(?!\1)[^\\])*\1[IM]*`,
    String.raw`[sy]([^\w\s\\])(?:\\.|\[\^?\]?[^\]]*\]|(?!\2)[^\\[])*\2(?:\\.|(?!\2)[^\\])*\2[gpiImM\d]*(?=[\s;}]|$)`,
    String.raw`[aic](?:[^\n\\]|\\[^]?)*`,
    String.raw`[btT:][^;\n}]*`,
    String.raw`#[^\n]*`,
    String.raw`[rR][^\n]*`,
    '[dDgGhHlnNpPqQxzF=]',
  ].join('|'),
  'sy',
)

/** The risk of the scripts of a sed call: HIGH when one runs programs, MEDIUM when it writes files. */
export function sedScriptRisk(args: readonly string[]): SecurityRisk {
  const isOption = /^(?:-[nErsuzi]*e|--exp[a-z]*=)(.+)$|^(?:-[nErsuzi]*e|--exp[a-z]*)$/s
  const given = args.flatMap((arg, at) => {
    const match = isOption.exec(arg)
    return match === null ? [] : (match[1] ?? args[at + 1] ?? [])
  })
  const hasFile = args.some((arg) => /^(?:-[nErsuzi]*f|--file)/.test(arg))
  const first = hasFile
    ? undefined
    : args.find((arg, at) => !arg.startsWith('-') && !/^(?:-\w*l|--l[a-z-]*)$/.test(args[at - 1] ?? ''))
  const rests = (given.length > 0 ? given : [first ?? '']).map(riskyRest)
  return rests.some((rest) => /^[esy]/.test(rest))
    ? 'HIGH'
    : rests.some((rest) => rest !== '')
      ? 'MEDIUM'
      : 'LOW'
}

/** The script from its first piece that is not harmless. */
function riskyRest(script: string): string {
  if (script === unknownText) return script
  let at = 0
  while (at < script.length) {
    harmlessPiece.lastIndex = at
    if (!harmlessPiece.test(script)) return script.slice(at)
    at = harmlessPiece.lastIndex
  }
  return ''
}
