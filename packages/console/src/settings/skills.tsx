import type { FormEvent } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { Cards } from '../ui/cards.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'

/** The skills that are installed on the server, for all new conversations. */
export function Skills() {
  const installed = useAnswer(['skills'], (signal) => agentServer.call('listInstalledSkills', { signal }))
  const install = useAction(
    ['skills'],
    (source: string) => agentServer.call('installSkill', { body: { source } }),
    ({ name }) => showToast({ text: `Installed: ${name}` }),
  )
  const enable = useAction(['skills'], ({ name, enabled }: { name: string; enabled: boolean }) =>
    agentServer.call('enableSkill', { params: { name }, body: { enabled } }),
  )
  const update = useAction(
    ['skills'],
    (name: string) => agentServer.call('refreshSkill', { params: { name } }),
    ({ message }) => showToast({ text: message }),
  )
  const remove = useAction(['skills'], (name: string) =>
    agentServer.call('uninstallSkill', { params: { name } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    install.mutate(String(new FormData(form).get('source')), { onSuccess: () => form.reset() })
  }
  if (installed.isPending) return <Loading />
  if (installed.isError) return <ErrorState error={installed.error} retry={() => void installed.refetch()} />
  const { skills } = installed.data
  return (
    <>
      <p>
        Instructions that agents load when a task needs them. Those of a workspace are found on their own.
      </p>
      {skills.length === 0 && <EmptyState icon="spark" title="No skills are installed" />}
      <Cards
        remove={remove.mutate}
        cards={skills.map(({ name, description, enabled, source }) => ({
          key: name,
          title: (
            <>
              <strong>{name}</strong> {!enabled && <span className="chip">switched off</span>}
            </>
          ),
          detail: (
            <>
              {description} <span className="mono">{source}</span>
            </>
          ),
          buttons: (
            <>
              <button type="button" onClick={() => update.mutate(name)} disabled={update.isPending}>
                Update
              </button>
              <button
                type="button"
                onClick={() => enable.mutate({ name, enabled: !enabled })}
                disabled={enable.isPending}
              >
                {enabled ? 'Switch off' : 'Switch on'}
              </button>
            </>
          ),
        }))}
      />
      <form className="stack" onSubmit={submit}>
        <label htmlFor="skill-source">Install from (a directory on the server, or a Git address)</label>
        <input id="skill-source" name="source" required className="mono" autoComplete="off" />
        {install.error && (
          <p className="problem" role="alert">
            {install.error.message}
          </p>
        )}
        <div className="buttons">
          <button type="submit" className="primary" disabled={install.isPending}>
            {install.isPending ? 'Installing …' : 'Install'}
          </button>
        </div>
      </form>
    </>
  )
}
