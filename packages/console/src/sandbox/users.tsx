import { unlimited } from '@slipway/protocol/client'
import { type FormEvent, useState } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { Table } from '../ui/table.tsx'
import { EraseUser } from './erase-user.tsx'
import { NewKey } from './new-key.tsx'

export const perDay = (limit: number | null) =>
  limit === null ? 'as the server says' : limit === unlimited ? 'unlimited' : `${limit} a day`

/** Users, for administrators. */
export function Users() {
  const organizations = useAnswer(['users', 'organizations'], (signal) =>
    sandboxServer.call('listOrganizations', { query: { limit: '100' }, signal }),
  )
  const users = useAnswer(['users'], (signal) =>
    sandboxServer.call('listUsers', { query: { limit: '100' }, signal }),
  )
  const [newKey, setNewKey] = useState<string>()
  const [erased, setErased] = useState<{ readonly id: string; readonly name: string | null }>()
  const create = useAction(['users'], (name: string) => sandboxServer.call('createUser', { body: { name } }))
  const createKey = useAction(
    ['keys'],
    (id: string) => sandboxServer.call('createUserKey', { params: { user_id: id }, body: {} }),
    ({ key }) => setNewKey(key),
  )
  const setAdmin = useAction(['users'], ({ id, is_admin }: { id: string; is_admin: boolean }) =>
    sandboxServer.call('patchUser', { params: { user_id: id }, body: { is_admin } }),
  )
  const remove = useAction(['users'], (id: string) =>
    sandboxServer.call('deleteUser', { params: { user_id: id } }),
  )
  const nameOf = new Map((organizations.data?.items ?? []).map(({ id, name }) => [id, name]))
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(String(new FormData(event.currentTarget).get('name')))
    event.currentTarget.reset()
  }
  return (
    <>
      <h1>Users</h1>
      <Table
        query={users}
        empty="No users"
        head={['Name', 'Role', 'Organisation', 'Conversations', 'Since', '']}
        rows={(users.data?.items ?? []).map((user) => ({
          key: user.id,
          cells: [
            user.name ?? user.email ?? user.id.slice(0, 8),
            user.is_admin ? 'administrator' : 'user',
            user.org_id === null ? '–' : (nameOf.get(user.org_id) ?? user.org_id.slice(0, 8)),
            perDay(user.daily_conversation_limit),
            formatAgo(Date.parse(user.created_at)),
            <Menu
              key="menu"
              label={`Actions of ${user.name ?? user.id}`}
              button={<Icon name="more" />}
              items={[
                { label: 'Make a key', run: () => createKey.mutate(user.id) },
                {
                  label: user.is_admin ? 'No longer an administrator' : 'Make an administrator',
                  run: () => setAdmin.mutate({ id: user.id, is_admin: !user.is_admin }),
                },
                { label: 'Remove', run: () => remove.mutate(user.id), isDangerous: true },
                { label: 'Erase all data', run: () => setErased(user), isDangerous: true },
              ]}
            />,
          ],
        }))}
      />
      {erased !== undefined && <EraseUser user={erased} onClose={() => setErased(undefined)} />}
      {newKey !== undefined && <NewKey value={newKey} onDone={() => setNewKey(undefined)} />}
      <form className="stack" onSubmit={submit}>
        <label htmlFor="user-name">Name of a new user</label>
        <input id="user-name" name="name" required maxLength={200} />
        <div className="buttons">
          <button type="submit" className="primary" disabled={create.isPending}>
            Add
          </button>
        </div>
      </form>
    </>
  )
}
