import type { FormEvent } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { Cards } from '../ui/cards.tsx'
import { ErrorState, Loading } from '../ui/states.tsx'

/** The secrets of the server: names and descriptions. A value is sent once and never shown. */
export function Secrets() {
  const secrets = useAnswer(['secrets'], (signal) => agentServer.call('listSecrets', { signal }))
  const save = useAction(['secrets'], (body: { name: string; value: string; description: string | null }) =>
    agentServer.call('saveSecret', { body }),
  )
  const remove = useAction(['secrets'], (name: string) =>
    agentServer.call('deleteSecret', { params: { name } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    const data = new FormData(form)
    const text = (name: string) => String(data.get(name) ?? '')
    save.mutate({ name: text('name'), value: text('value'), description: text('description') || null })
    form.reset()
  }
  if (secrets.isPending) return <Loading />
  if (secrets.isError) return <ErrorState error={secrets.error} />
  return (
    <>
      <p>Commands of agents see these as environment variables. Logs and answers never have their values.</p>
      <Cards
        remove={remove.mutate}
        cards={secrets.data.secrets.map(({ name, description }) => ({
          key: name,
          title: <strong className="mono">{name}</strong>,
          detail: description,
        }))}
      />
      <form className="stack" onSubmit={submit}>
        <label htmlFor="secret-name">Name</label>
        <input id="secret-name" name="name" required className="mono" autoComplete="off" />
        <label htmlFor="secret-value">Value</label>
        <input id="secret-value" name="value" type="password" required autoComplete="off" />
        <label htmlFor="secret-description">Description</label>
        <input id="secret-description" name="description" />
        <div className="buttons">
          <button type="submit" className="primary" disabled={save.isPending}>
            Save
          </button>
        </div>
      </form>
    </>
  )
}
