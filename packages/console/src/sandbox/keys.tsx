import { type FormEvent, useState } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'
import { Table } from '../ui/table.tsx'
import { NewKey } from './new-key.tsx'
import { OwnBudgets } from './own-budgets.tsx'

/** The keys of the caller, what today's quota leaves, and who is signed in. */
export function Keys() {
  const me = useAnswer(['me'], (signal) => sandboxServer.call('me', { signal }))
  const quota = useAnswer(['quota'], (signal) => sandboxServer.call('quotaStatus', { signal }))
  const keys = useAnswer(['keys'], (signal) => sandboxServer.call('listApiKeys', { signal }))
  const [newKey, setNewKey] = useState<string>()
  const create = useAction(
    ['keys'],
    (name: string) => sandboxServer.call('createApiKey', { body: { name } }),
    ({ key }) => setNewKey(key),
  )
  const revoke = useAction(['keys'], (id: string) =>
    sandboxServer.call('deleteApiKey', { params: { key_id: id } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(String(new FormData(event.currentTarget).get('name')))
    event.currentTarget.reset()
  }
  return (
    <>
      <h1>Keys and use</h1>
      {me.data && (
        <p>
          Signed in as {me.data.id ?? 'the only user'}, {me.data.role}
          {me.data.org_name && ` in ${me.data.org_name}`}.
        </p>
      )}
      {quota.data && (
        <p>
          Conversations today: {quota.data.used_today}
          {quota.data.daily_limit === null ? ', without a limit' : ` of ${quota.data.daily_limit}`}.
        </p>
      )}
      <OwnBudgets />
      <h2>Keys</h2>
      <Table
        query={keys}
        empty="No keys"
        head={['Name', 'May', 'Made', 'Last used', '']}
        rows={(keys.data ?? []).map((key) => ({
          key: key.id,
          cells: [
            key.name ?? key.id,
            key.scopes.join(', '),
            formatAgo(Date.parse(key.created_at)),
            key.last_used_at === null ? 'never' : formatAgo(Date.parse(key.last_used_at)),
            <button key="revoke" type="button" className="danger" onClick={() => revoke.mutate(key.id)}>
              Revoke
            </button>,
          ],
        }))}
      />
      {newKey !== undefined && <NewKey value={newKey} onDone={() => setNewKey(undefined)} />}
      <form className="stack" onSubmit={submit}>
        <label htmlFor="key-name">Name of a new key</label>
        <input id="key-name" name="name" required maxLength={200} />
        <div className="buttons">
          <button type="submit" className="primary">
            Make a key
          </button>
        </div>
      </form>
    </>
  )
}
