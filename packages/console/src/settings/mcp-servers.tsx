import { recordOf, textOf } from '@slipway/protocol/event-text'
import { firstChars } from '@slipway/shared/text'
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { Cards } from '../ui/cards.tsx'
import { ErrorState, Loading } from '../ui/states.tsx'

/** The MCP servers of the settings, with a test of each. */
export function McpServers() {
  const settings = useAnswer(['settings'], (signal) => agentServer.call('getSettings', { signal }))
  const [isRemote, setRemote] = useState(false)
  const test = useMutation({
    mutationFn: ({ name, server }: { name: string; server: Readonly<Record<string, unknown>> }) =>
      agentServer.call('testMcpServer', { body: { name, server: { ...server } } }),
    onSuccess: (result, { name }) =>
      showToast(
        result.ok
          ? { text: `${name} has ${result.tools.length} tools: ${firstChars(result.tools.join(', '), 300)}` }
          : { text: `${name}: ${result.error}`, tone: 'error', duration: 15_000 },
      ),
  })
  const add = useAction(
    ['settings'],
    ({ name, server }: { name: string; server: { command: string; args: string[] } | { url: string } }) =>
      agentServer.call('createMcpServer', { params: { settings_key: name }, body: server }),
  )
  const remove = useAction(['settings'], (name: string) =>
    agentServer.call('deleteMcpServer', { params: { settings_key: name } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const text = (name: string) => String(form.get(name) ?? '').trim()
    const [command = '', ...args] = text('command').split(/\s+/)
    add.mutate({ name: text('name'), server: isRemote ? { url: text('url') } : { command, args } })
  }
  if (settings.isPending) return <Loading />
  if (settings.isError) return <ErrorState error={settings.error} />
  const config = recordOf(settings.data.agent_settings.mcp_config)
  const servers = Object.entries(recordOf(config.mcpServers ?? config))
  return (
    <>
      <Cards
        remove={remove.mutate}
        cards={servers.map(([name, value]) => {
          const server = recordOf(value)
          const args = Array.isArray(server.args) ? server.args.join(' ') : ''
          const place = textOf(server.url) ?? `${textOf(server.command) ?? ''} ${args}`
          return {
            key: name,
            title: <strong>{name}</strong>,
            detail: <span className="mono">{place}</span>,
            buttons: (
              <button type="button" disabled={test.isPending} onClick={() => test.mutate({ name, server })}>
                Test
              </button>
            ),
          }
        })}
      />
      {servers.length === 0 && <p>None yet. Agents get the tools of the servers that are listed here.</p>}
      <form className="stack" onSubmit={submit}>
        <h2>Add one</h2>
        <label htmlFor="mcp-name">Name</label>
        <input id="mcp-name" name="name" required />
        <label htmlFor="mcp-type">It is</label>
        <select
          id="mcp-type"
          value={isRemote ? 'url' : 'command'}
          onChange={({ target }) => setRemote(target.value === 'url')}
        >
          <option value="command">a command that the server starts</option>
          <option value="url">an address</option>
        </select>
        <label htmlFor="mcp-place">{isRemote ? 'Address' : 'Command with its arguments'}</label>
        <input
          id="mcp-place"
          key={String(isRemote)}
          name={isRemote ? 'url' : 'command'}
          type={isRemote ? 'url' : 'text'}
          required
          className="mono"
        />
        <div className="buttons">
          <button type="submit" className="primary" disabled={add.isPending}>
            Add
          </button>
        </div>
      </form>
    </>
  )
}
