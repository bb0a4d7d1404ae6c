import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Provider, providers } from '../packages/agent/src/llm/capabilities/provider-table.ts'
import { catalogue } from '../packages/agent/src/llm/catalogue/catalogue.ts'

const root = resolve(import.meta.dirname, '..')

const cacheMarks = {
  none: '–',
  cacheControl: '`cache_control`',
  cachePoint: '`cachePoint`',
  claude: '`cache_control`, Claude only',
}
const reasoningForms: Readonly<Record<string, string>> = {
  none: '–',
  own: 'signed or encrypted',
  same: 'as received',
}
const callIds = {
  any: '–',
  word: 'word characters',
  short: '40 word characters',
  nine: '9 letters and digits',
}

function row(provider: Provider): string {
  const { members, renamed = {}, reasoning, needsReasoning } = provider
  const cells = [
    provider.title,
    provider.prefixes.map((prefix) => `\`${prefix}\``).join(', '),
    provider.api,
    provider.api !== 'compatible'
      ? '–'
      : members === 'any'
        ? 'what the settings ask for'
        : members.map((name) => `\`${name}\``).join(', '),
    Object.entries(renamed)
      .map(([from, to]) => `\`${from}\`: \`${to}\``)
      .join(', ') || '–',
    cacheMarks[provider.cacheMarks] + (provider.hasCacheKey ? '; `prompt_cache_key`' : ''),
    reasoningForms[reasoning] ?? `\`${reasoning}\`${needsReasoning ? ', beside calls always' : ''}`,
    callIds[provider.callIds],
    provider.content,
    provider.images === 'none' ? 'none' : `${provider.images}, ${provider.maxImages}`,
    provider.prices === undefined ? '–' : `\`${provider.prices}\``,
  ]
  return `| ${cells.join(' | ')} |`
}

const header = [
  ...['provider', 'prefixes', 'interface', 'optional members', 'renamed', 'cache', 'reasoning back'],
  ...['call ids', 'content', 'images', 'price list'],
]

const text = `# Providers

Printed by \`npx node scripts/print-providers.ts\` from \`packages/agent/src/llm/capabilities/provider-table.ts\`; do not edit.

A request contains only members that its server knows. Common to all OpenAI-compatible servers: \`model\`, \`messages\`, \`stream\`,
\`tools\`, \`temperature\`, \`max_tokens\`. Settings that a server does not know are left out; \`litellm_extra_body\` is always sent. A server
is recognised by the host of its \`base_url\`, else by the prefix of \`model\`.

\`capability_overrides\` of a model's settings: \`supports_vision\`, \`supports_prompt_cache\` (true: \`cache_control\` marks),
\`supports_reasoning_effort\`, and \`reasoning_member\` (\`none\`, \`reasoning\` or \`reasoning_content\`: where plain reasoning goes back).

Context windows and prices are those of the bundled price list, under the name in the last column; \`max_input_tokens\`,
\`input_cost_per_token\` and \`output_cost_per_token\` override them.

A server of the user's own is asked for the window of its model, once, before the first request: \`max_model_len\` (vLLM), \`n_ctx\`
(llama.cpp), \`context_length\` and \`num_ctx\` (Ollama), \`loaded_context_length\` (LM Studio). \`max_input_tokens\` overrides it too.

| ${header.join(' | ')} |
|${header.map(() => '---').join('|')}|
${providers.map(row).join('\n')}
`

/** By provider, in their order. The sandbox server shows the list without the libraries of agents. */
const { providers: names, models, verified } = catalogue()
const knownModels = Object.fromEntries(
  names().map((name) => {
    const own = models(name).map((model) => model.slice(name.length + 1))
    return [name, { verified: verified()[name] ?? [], models: own }]
  }),
)

const files = {
  'docs/providers.md': text,
  'packages/sandbox-server/src/accounts/known-models.json': `${JSON.stringify(knownModels, null, 2)}\n`,
}
/** With `--check` it fails when a committed file differs; without, it writes the files. */
for (const [name, content] of Object.entries(files)) {
  const file = resolve(root, name)
  if (!process.argv.includes('--check')) writeFileSync(file, content)
  else if (!existsSync(file) || readFileSync(file, 'utf8') !== content) {
    console.error(`${name} is out of date: run \`npx node scripts/print-providers.ts\` and review the diff`)
    process.exitCode = 1
  }
}
