import { type ESTree, parseSync, Visitor } from 'rolldown/utils'

/** A condition that is turned, a check that is left out, an error that is swallowed. */
export type MutationKind = 'condition' | 'check' | 'error'

/** A small fault: an edit of one source text. */
export interface Mutation {
  readonly kind: MutationKind
  /** Of the edit's start, from 1. */
  readonly line: number
  readonly start: number
  readonly end: number
  readonly replacement: string
}

type Edit = Omit<Mutation, 'line'>
type Span = Readonly<Record<'start' | 'end', number>>

const opposites: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '==': '!=',
  '!=': '==',
  '<': '>=',
  '>=': '<',
  '>': '<=',
  '<=': '>',
}
/** Names of functions that are called for what they throw. */
const checkName = /^(?:assert|check|deny|ensure|forbid|must|refuse|require|validate|verify)(?![a-z])/
/** Objects whose `parse` is no check of a schema. */
const otherParsers = new Set(['JSON', 'Date', 'path', 'posix', 'URL'])

/** All faults that a source text can have, in the order of their places. */
export function findMutations(file: string, text: string): Mutation[] {
  const edits: Edit[] = []
  const add = (kind: MutationKind, { start, end }: Span, replacement: string) =>
    void edits.push({ kind, start, end, replacement })
  const textOf = ({ start, end }: Span) => text.slice(start, end)
  const turn = (test: ESTree.Expression | null) => {
    const condition = test === null ? undefined : withoutParentheses(test)
    // A comparison is turned where it stands.
    if (condition === undefined || isComparison(condition)) return
    if (condition.type === 'UnaryExpression' && condition.operator === '!')
      add('condition', condition, textOf(condition.argument))
    else add('condition', condition, `!(${textOf(condition)})`)
  }
  const guardThrows = new Set<unknown>()
  new Visitor({
    IfStatement(node) {
      turn(node.test)
      const only = onlyStatement(node.consequent)
      if (node.alternate !== null || !endsFunction(node.consequent)) return
      add('check', node, '{}')
      guardThrows.add(only)
    },
    ConditionalExpression: ({ test }) => turn(test),
    WhileStatement: ({ test }) => turn(test),
    DoWhileStatement: ({ test }) => turn(test),
    ForStatement: ({ test }) => turn(test),
    LogicalExpression({ operator, left, right }) {
      if (operator === '??') return
      const start = text.indexOf(operator, left.end)
      const isBetween = start >= left.end && start < right.start
      if (isBetween) add('condition', { start, end: start + 2 }, operator === '&&' ? '||' : '&&')
    },
    BinaryExpression({ operator, left, right }) {
      const opposite = opposites[operator]
      const start = text.indexOf(operator, left.end)
      if (opposite !== undefined && start >= left.end && start < right.start)
        add('condition', { start, end: start + operator.length }, opposite)
    },
    CallExpression(node) {
      const [value, ...others] = node.arguments
      if (value !== undefined && others.length === 0 && isSchemaParse(node.callee))
        add('check', node, `(${textOf(value)} as any)`)
    },
    ExpressionStatement(node) {
      const { expression } = node
      const called = expression.type === 'AwaitExpression' ? expression.argument : expression
      if (called.type === 'CallExpression' && checkName.test(calledName(called.callee)))
        add('check', node, '{}')
      if (expression.type === 'AwaitExpression')
        add('error', node, `await Promise.resolve(${textOf(expression.argument)}).catch(() => {})`)
    },
    ThrowStatement(node) {
      if (!guardThrows.has(node)) add('error', node, '{}')
    },
    CatchClause({ body }) {
      if (body.body.length > 0) add('error', body, '{}')
    },
  }).visit(parseSync(file, text).program)
  const lineOf = lineFinder(text)
  return edits
    .toSorted((one, other) => one.start - other.start || one.end - other.end)
    .map((edit) => ({ ...edit, line: lineOf(edit.start) }))
}

export function applyMutation(text: string, { start, end, replacement }: Mutation): string {
  return `${text.slice(0, start)}${replacement}${text.slice(end)}`
}

/** The lines of an edit before and after it, without their indentation. */
export function describeMutation(text: string, { start, end, replacement }: Mutation): [string, string] {
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const lineEnd = text.indexOf('\n', end)
  const rest = text.slice(end, lineEnd === -1 ? undefined : lineEnd)
  const join = (lines: string) => lines.replace(/\s*\n\s*/g, ' ').trim()
  return [
    join(`${text.slice(lineStart, end)}${rest}`),
    join(`${text.slice(lineStart, start)}${replacement}${rest}`),
  ]
}

/** Whether the text of a file has no syntax error. */
export function isParsable(file: string, text: string): boolean {
  return parseSync(file, text).errors.length === 0
}

function withoutParentheses(node: ESTree.Expression): ESTree.Expression {
  return node.type === 'ParenthesizedExpression' ? withoutParentheses(node.expression) : node
}

function isComparison(node: ESTree.Expression): boolean {
  return node.type === 'BinaryExpression' && opposites[node.operator] !== undefined
}

/** Whether a statement is a guard's: its last step is `throw` or `return`. */
function endsFunction(node: ESTree.Statement): boolean {
  const last = node.type === 'BlockStatement' ? node.body.at(-1) : node
  return last?.type === 'ThrowStatement' || last?.type === 'ReturnStatement'
}

function onlyStatement(node: ESTree.Statement): unknown {
  if (node.type !== 'BlockStatement') return node
  return node.body.length === 1 ? node.body[0] : undefined
}

function isSchemaParse(callee: ESTree.Expression): boolean {
  if (callee.type !== 'MemberExpression' || calledName(callee) !== 'parse') return false
  return callee.object.type === 'Identifier' && !otherParsers.has(callee.object.name)
}

function calledName(callee: ESTree.Expression): string {
  if (callee.type === 'Identifier') return callee.name
  if (callee.type !== 'MemberExpression' || callee.computed) return ''
  return callee.property.name
}

function lineFinder(text: string): (offset: number) => number {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return (offset) => {
    const next = starts.findIndex((start) => start > offset)
    return next === -1 ? starts.length : next
  }
}
