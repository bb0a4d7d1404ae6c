import { type FormEvent, useState } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { ErrorState, Loading } from '../ui/states.tsx'
import { Table } from '../ui/table.tsx'
import { perDay } from './users.tsx'

const roles = ['owner', 'admin', 'member'] as const
type Role = (typeof roles)[number]

/** Organisations: all for administrators of the server, for others those that they are members of. */
export function Organizations({ isAdmin }: { readonly isAdmin: boolean }) {
  const organizations = useAnswer(['organizations'], (signal) =>
    sandboxServer.call('listOrganizations', { query: { limit: '100' }, signal }),
  )
  const [chosen, setChosen] = useState<string>()
  const create = useAction(['organizations'], (name: string) =>
    sandboxServer.call('createOrganization', { body: { name } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(String(new FormData(event.currentTarget).get('name')))
    event.currentTarget.reset()
  }
  if (chosen !== undefined) return <Organization id={chosen} onBack={() => setChosen(undefined)} />
  return (
    <>
      <h1>Organisations</h1>
      <Table
        query={organizations}
        empty="No organisations"
        head={['Name', 'Conversations', 'Since']}
        rows={(organizations.data?.items ?? []).map((one) => ({
          key: one.id,
          cells: [
            <button key="open" type="button" className="link" onClick={() => setChosen(one.id)}>
              {one.name}
            </button>,
            perDay(one.daily_conversation_limit),
            formatAgo(Date.parse(one.created_at)),
          ],
        }))}
      />
      {isAdmin && (
        <form className="stack" onSubmit={submit}>
          <label htmlFor="org-name">Name of a new organisation</label>
          <input id="org-name" name="name" required maxLength={200} />
          <div className="buttons">
            <button type="submit" className="primary" disabled={create.isPending}>
              Add
            </button>
          </div>
        </form>
      )}
    </>
  )
}

function Organization({ id, onBack }: { readonly id: string; readonly onBack: () => void }) {
  const params = { org_id: id }
  const details = useAnswer(['organizations', id], (signal) =>
    sandboxServer.call('getOrganization', { params, signal }),
  )
  if (details.isPending) return <Loading />
  if (details.isError) return <ErrorState error={details.error} />
  const { name, members, sandboxes, conversations, daily_conversation_limit } = details.data
  return (
    <>
      <h1>{name}</h1>
      <p>
        {members} members, {sandboxes} sandboxes, {conversations} conversations; conversations of a member:{' '}
        {perDay(daily_conversation_limit)}.
      </p>
      <div className="buttons">
        <button type="button" onClick={onBack}>
          All organisations
        </button>
      </div>
      <h2>Limits</h2>
      <Limits id={id} models={details.data.allowed_models} specs={details.data.allowed_specs} />
      <h2>Members</h2>
      <Members id={id} />
      <h2>Shared with members</h2>
      <Shared id={id} />
    </>
  )
}

const toNames = (text: FormDataEntryValue | null) => {
  const names = String(text ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  return names.length === 0 ? null : names
}

function Limits(props: {
  readonly id: string
  readonly models: readonly string[] | null
  readonly specs: readonly string[] | null
}) {
  const save = useAction(
    ['organizations'],
    (body: { allowed_models: string[] | null; allowed_specs: string[] | null }) =>
      sandboxServer.call('updateOrganization', { params: { org_id: props.id }, body }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget)
    save.mutate({ allowed_models: toNames(data.get('models')), allowed_specs: toNames(data.get('specs')) })
  }
  return (
    <form className="stack" onSubmit={submit}>
      <label htmlFor="org-models">Allowed models, with commas; empty: all</label>
      <input id="org-models" name="models" defaultValue={props.models?.join(', ') ?? ''} className="mono" />
      <label htmlFor="org-specs">Allowed sandbox specs, with commas; empty: all</label>
      <input id="org-specs" name="specs" defaultValue={props.specs?.join(', ') ?? ''} className="mono" />
      <div className="buttons">
        <button type="submit" disabled={save.isPending}>
          Save limits
        </button>
      </div>
    </form>
  )
}

function Members({ id }: { readonly id: string }) {
  const key = ['organizations', id, 'members']
  const members = useAnswer(key, (signal) =>
    sandboxServer.call('listMembers', { params: { org_id: id }, query: { limit: '100' }, signal }),
  )
  const join = useAction(['organizations'], ({ user_id, role }: { user_id: string; role?: Role }) =>
    sandboxServer.call('joinOrganization', { params: { org_id: id, user_id }, body: { role } }),
  )
  const leave = useAction(['organizations'], (user_id: string) =>
    sandboxServer.call('leaveOrganization', { params: { org_id: id, user_id } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    join.mutate({ user_id: String(new FormData(event.currentTarget).get('user')).trim() })
    event.currentTarget.reset()
  }
  return (
    <>
      <Table
        query={members}
        empty="No members"
        head={['Name', 'Role', '']}
        rows={(members.data?.items ?? []).map((user) => ({
          key: user.id,
          cells: [
            user.name ?? user.email ?? user.id,
            user.role,
            <Menu
              key="menu"
              label={`Actions of ${user.name ?? user.id}`}
              button={<Icon name="more" />}
              items={[
                ...roles
                  .filter((role) => role !== user.role)
                  .map((role) => ({
                    label: `Make ${role}`,
                    run: () => join.mutate({ user_id: user.id, role }),
                  })),
                { label: 'Take out', run: () => leave.mutate(user.id), isDangerous: true },
              ]}
            />,
          ],
        }))}
      />
      <form className="stack" onSubmit={submit}>
        <label htmlFor="org-user">Id of a user to add</label>
        <input id="org-user" name="user" required className="mono" maxLength={100} />
        <div className="buttons">
          <button type="submit" disabled={join.isPending}>
            Add member
          </button>
        </div>
      </form>
    </>
  )
}

function Shared({ id }: { readonly id: string }) {
  const params = { org_id: id }
  const key = ['organizations', id, 'shared']
  const profiles = useAnswer([...key, 'models'], (signal) =>
    sandboxServer.call('listSharedProfiles', { params, signal }),
  )
  const servers = useAnswer([...key, 'mcp'], (signal) =>
    sandboxServer.call('listSharedMcpServers', { params, signal }),
  )
  const remove = useAction(key, ({ kind, name }: { kind: 'model' | 'mcp'; name: string }) =>
    sandboxServer.call(kind === 'model' ? 'deleteSharedProfile' : 'deleteSharedMcpServer', {
      params: { ...params, name },
    }),
  )
  const share = useAction(key, ({ name, model, api_key }: Readonly<Record<string, string>>) =>
    sandboxServer.call('saveSharedProfile', {
      params: { ...params, name: name ?? '' },
      body: { llm: { model: model ?? '', api_key } },
    }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const entries = [...new FormData(event.currentTarget)].map(([name, value]) => [name, String(value)])
    share.mutate(Object.fromEntries(entries))
    event.currentTarget.reset()
  }
  const models = (profiles.data?.profiles ?? []).map(({ name, model }) => ({
    kind: 'model' as const,
    name,
    what: `${model}${name === profiles.data?.active_profile ? ', the default' : ''}`,
  }))
  const mcp = (servers.data?.items ?? []).map(({ name, server }) => ({
    kind: 'mcp' as const,
    name,
    what: server?.url ?? server?.command ?? '',
  }))
  return (
    <>
      <Table
        query={profiles}
        empty="Nothing is shared"
        head={['Kind', 'Name', 'What', '']}
        rows={[...models, ...mcp].map(({ kind, name, what }) => ({
          key: `${kind} ${name}`,
          cells: [
            kind === 'model' ? 'model' : 'MCP server',
            name,
            <span key="what" className="mono wrap">
              {what}
            </span>,
            <button
              key="remove"
              type="button"
              aria-label={`Remove ${name}`}
              onClick={() => remove.mutate({ kind, name })}
            >
              Remove
            </button>,
          ],
        }))}
      />
      <form className="stack" onSubmit={submit}>
        <label htmlFor="shared-name">Name of a model to share</label>
        <input id="shared-name" name="name" required className="mono" />
        <label htmlFor="shared-model">Model</label>
        <input id="shared-model" name="model" required className="mono" placeholder="provider/name" />
        <label htmlFor="shared-key">Key</label>
        <input id="shared-key" name="api_key" type="password" autoComplete="off" />
        <div className="buttons">
          <button type="submit" disabled={share.isPending}>
            Share
          </button>
        </div>
      </form>
    </>
  )
}
