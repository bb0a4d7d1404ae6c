import { asRecord, parseJson } from '@slipway/shared/json'

/**
 * The forms in which models were trained to write calls. A server without the parser of its model leaves them
 * in the text. Each becomes the form of `parseTextCalls`.
 */
const forms: readonly (readonly [pattern: RegExp, call: (...groups: string[]) => string])[] = [
  // DeepSeek, V3 and V3.1
  [
    /<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?([\w.-]+)(?:<｜tool▁sep｜>)?\s*(?:```json)?\s*(\{.*?\})\s*(?:```)?\s*<｜tool▁call▁end｜>/gs,
    named,
  ],
  // Kimi
  [
    /<\|tool_call_begin\|>(?:functions\.)?([\w.-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*(\{.*?\})\s*<\|tool_call_end\|>/gs,
    named,
  ],
  // GLM
  [/<tool_call>\s*([\w.-]+)\s*((?:<arg_key>.*?<\/arg_value>\s*)*)<\/tool_call>/gs, withParameters],
  // MiniMax
  [/<invoke name="?([\w.-]+)"?>(.*?)<\/invoke>/gs, named],
  // Mistral, old and new
  [/\[TOOL_CALLS\]\s*(\[\s*\{.*\}\s*\])/gs, listed],
  [
    /\[TOOL_CALLS\]\s*([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(\{.*?\})(?=\s*(?:\[TOOL_CALLS\]|$))/gs,
    named,
  ],
  // harmony: its calls, its thoughts and the marks of its answer
  [
    /(?:<\|start\|>assistant)?(?:<\|channel\|>(?:commentary|analysis) )?to=(?:functions\.)?([\w.-]+)(?:<\|channel\|>\w+)?\s*(?:<\|constrain\|>)?\w*<\|message\|>(\{.*?\})\s*(?:<\|call\|>|$)/gs,
    named,
  ],
  [/(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?<\|end\|>/gs, () => ''],
  // Llama
  [/<\|python_tag\|>\s*(\{.*\})\s*(?:<\|eom_id\|>)?/gs, (_, json = '') => `<tool_call>${json}</tool_call>`],
]

const marks =
  /<｜tool▁calls▁(?:begin|end)｜>|<\|tool_calls_section_(?:begin|end)\|>|<\/?minimax:tool_call>|<\|start\|>assistant|<\|channel\|>final<\|message\|>|<\|(?:return|end)\|>/g
const anyForm = /[<[][｜|]?\/?(?:tool▁|tool_call|invoke|minimax|channel|start\||python_tag|TOOL_CALLS)/

/** A text with its calls in one form. */
export function readForeignForms(text: string): string {
  if (!anyForm.test(text)) return text
  const rewritten = forms.reduce((now, [pattern, call]) => now.replace(pattern, call), text)
  return rewritten === text ? text : rewritten.replace(marks, '')
}

function named(_: string, name = '', body = ''): string {
  return `<tool_call name="${name}">${body}</tool_call>`
}

function withParameters(_: string, name = '', pairs = ''): string {
  const parameters = pairs.replace(
    /<arg_key>\s*([\w.-]+)\s*<\/arg_key>\s*<arg_value>(.*?)<\/arg_value>/gs,
    (_pair, key: string, value: string) => `<parameter name="${key}">${value}</parameter>`,
  )
  return `<tool_call name="${name}">${parameters}</tool_call>`
}

function listed(whole: string, json = ''): string {
  const list = parseJson(json)
  if (!Array.isArray(list)) return whole
  return list.map((call) => `<tool_call>${JSON.stringify(asRecord(call))}</tool_call>`).join('')
}
