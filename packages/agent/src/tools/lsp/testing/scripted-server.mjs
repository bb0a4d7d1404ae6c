#!/usr/bin/env node
// A language server whose errors are the lines with the word `wrong`. The environment variable LSP_MODE
// names what it does: publish (default), pull, silent, exit, garbage.
const mode = process.env.LSP_MODE ?? 'publish'
let buffered = Buffer.alloc(0)
const texts = new Map()

const send = (message) => {
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }))
  process.stdout.write(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]))
}
const diagnostics = (uri) =>
  (texts.get(uri) ?? '').split('\n').flatMap((text, line) => {
    const severity = /wrong/.test(text) ? 1 : /doubtful/.test(text) ? 2 : undefined
    const place = { line, character: 0 }
    return severity ? [{ range: { start: place, end: place }, severity, message: `Not so: ${text}` }] : []
  })

function handle({ id, method, params }) {
  if (method === 'initialize') {
    if (mode === 'exit') process.exit(3)
    if (mode === 'garbage') process.stdout.write('Content-Length: 5\r\n\r\n{{{{{')
    // A request of the server before its answer, as real ones make.
    send({ id: 'ask', method: 'workspace/configuration', params: { items: [{ section: 'x' }] } })
    send({ id, result: { capabilities: mode === 'pull' ? { diagnosticProvider: {} } : {} } })
  }
  const uri = params?.textDocument?.uri
  if (method === 'textDocument/didOpen') texts.set(uri, params.textDocument.text)
  if (method === 'textDocument/didChange') texts.set(uri, params.contentChanges[0].text)
  if (method?.startsWith('textDocument/did') && mode === 'publish')
    send({ method: 'textDocument/publishDiagnostics', params: { uri, diagnostics: diagnostics(uri) } })
  if (method === 'textDocument/diagnostic') send({ id, result: { kind: 'full', items: diagnostics(uri) } })
}

process.stdin.on('data', (chunk) => {
  buffered = Buffer.concat([buffered, chunk])
  for (;;) {
    const head = buffered.indexOf('\r\n\r\n')
    const length = Number(
      /Content-Length: (\d+)/.exec(buffered.toString('latin1', 0, Math.max(head, 0)))?.[1],
    )
    if (head < 0 || buffered.length < head + 4 + length) return
    const body = buffered.subarray(head + 4, head + 4 + length)
    buffered = buffered.subarray(head + 4 + length)
    handle(JSON.parse(body.toString()))
  }
})
process.stdin.on('end', () => process.exit(0))
