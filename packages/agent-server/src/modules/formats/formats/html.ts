import {
  callSummary,
  contentImages,
  contentText,
  exitCode,
  externalCallSummary,
  externalCallText,
  isFailure,
  jsonText,
  kindName,
  type LogEvent,
  observationText,
  recordOf,
  textOf,
  type WireEvent,
} from '@slipway/protocol/event-text'
import type { WriteFormat } from './format.ts'
import { shownEvents } from './shown-events.ts'

/**
 * One page to read a conversation without a server. A log may be hostile: every text is escaped, pictures are
 * shown only where the event holds them (`data:` of a bitmap), and the policy of the page forbids scripts and
 * requests, should an escape be missing.
 */
export const writeHtml: WriteFormat = async function* ({ record, batches }) {
  const title = escapeHtml(record.title ?? '') || record.id
  yield Buffer.from(`${head(title)}<h1>${title}</h1>
<p class="about">Conversation ${record.id}, ${record.head} events</p>
`)
  for await (const events of batches) yield Buffer.from(shownEvents(events).map(eventHtml).join(''))
  yield Buffer.from('</main>\n</body>\n</html>\n')
}

const policy =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"

const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #c22; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
.about, .head { opacity: .75; font-size: .85rem; overflow-wrap: anywhere; }
article { border-top: 1px solid var(--line); padding: .6rem 0; }
article.user { border-left: 3px solid #38f; padding-left: .8rem; }
article.failed { border-left: 3px solid var(--bad); padding-left: .8rem; }
pre, .text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; margin: .4rem 0; }
pre { background: var(--soft); padding: .6rem; font: 13px/1.45 ui-monospace, monospace; }
img { max-width: 100%; height: auto; }
`

function head(title: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<main>
`
}

function eventHtml({ position, event }: LogEvent): string {
  const failed = isFailure(event) ? ' failed' : ''
  const source = event.source === 'user' ? 'user' : 'other'
  const time = event.timestamp === undefined ? '' : ` · ${escapeHtml(String(event.timestamp))}`
  const who = event.kind === 'MessageEvent' ? ` · ${escapeHtml(textOf(event.source) ?? '')}` : ''
  return `<article class="${source}${failed}" id="e${position}">
<div class="head">#${position} ${escapeHtml(kindName(event.kind))}${who}${time}</div>
${eventBody(event)}
</article>
`
}

function eventBody(event: WireEvent): string {
  switch (event.kind) {
    case 'MessageEvent': {
      const { content } = recordOf(event.llm_message)
      return text(contentText(content)) + images(content)
    }
    case 'ActionEvent': {
      const call = jsonText(event.action ?? recordOf(event.tool_call).arguments)
      const name = `${textOf(event.tool_name) ?? 'tool'} ${callSummary(event)}`
      return text(contentText(event.thought)) + details(name, call)
    }
    case 'ObservationEvent': {
      const code = exitCode(event)
      const name = `${textOf(event.tool_name) ?? 'result'}${code === undefined ? '' : `, exit code ${code}`}`
      return (
        details(name, observationText(event.observation), true) + images(recordOf(event.observation).content)
      )
    }
    case 'AgentErrorEvent':
      return text(textOf(event.error) ?? '')
    case 'ConversationErrorEvent':
      return text(`${textOf(event.code) ?? 'Error'}: ${textOf(event.detail) ?? ''}`)
    case 'UserRejectObservation':
      return text(textOf(event.rejection_reason) ?? '')
    case 'ACPToolCallEvent':
      return details(externalCallSummary(event), externalCallText(event), true)
    case 'Condensation':
    case 'CondensationSummaryEvent':
      return text(textOf(event.summary) ?? '')
    case 'SystemPromptEvent':
      return details('System prompt', contentText([event.system_prompt]))
    default:
      return details('Event', jsonText(event))
  }
}

function text(value: string): string {
  return value === '' ? '' : `<div class="text">${escapeHtml(value)}</div>`
}

function details(name: string, value: string, isOpen = false): string {
  const open = isOpen ? ' open' : ''
  return `<details${open}><summary>${escapeHtml(name)}</summary><pre>${escapeHtml(value)}</pre></details>`
}

/** Pictures of the event itself; of others the address. */
function images(content: unknown): string {
  return contentImages(content)
    .map((url) =>
      /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$/.test(url)
        ? `<img alt="" src="${escapeHtml(url)}">`
        : text(`Image: ${url}`),
    )
    .join('')
}

function escapeHtml(value: string): string {
  return value
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}
