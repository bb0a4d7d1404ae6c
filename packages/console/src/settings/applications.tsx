import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { refresh, useAction, useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { Cards } from '../ui/cards.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'

interface Application {
  readonly name: string
  readonly version: string
  readonly source: string
  readonly revision: string | null
  readonly isApproved: boolean
  readonly state: string
  readonly detail: string | null
  /** Undefined: it has no program. */
  readonly program: { readonly argv: readonly string[]; readonly secrets: readonly string[] } | undefined
}

/** Installed applications: their programs are approved, started and opened here. */
export function Applications() {
  const applications = useAnswer(['applications'], (signal) => readAll(signal))
  const [asked, setAsked] = useState<Application>()
  const onSettled = () => refresh('applications')
  const onError = (error: Error) => showToast({ text: error.message, tone: 'error' })
  const start = useMutation({
    mutationFn: ({ name, revision }: Application) =>
      agentServer.call('startCanvasExtensionBackend', {
        params: { extension_name: name },
        body: { revision: revision ?? '' },
      }),
    ...{ onSettled, onError },
  })
  const stop = useMutation({
    mutationFn: (name: string) =>
      agentServer.call('stopCanvasExtensionBackend', { params: { extension_name: name } }),
    ...{ onSettled, onError },
  })
  const open = useMutation({
    mutationFn: (name: string) =>
      agentServer.call('createApplicationLink', { params: { extension_name: name } }),
    onSuccess: ({ url }) => void window.open(url, '_blank', 'noopener,noreferrer'),
    onError,
  })
  const remove = useMutation({
    mutationFn: (name: string) =>
      agentServer.call('uninstallCanvasExtension', { params: { extension_name: name } }),
    ...{ onSettled, onError },
  })
  if (applications.isPending) return <Loading />
  if (applications.isError)
    return <ErrorState error={applications.error} retry={() => void applications.refetch()} />
  return (
    <>
      {applications.data.length === 0 && <EmptyState icon="spark" title="No applications are installed" />}
      <Cards
        remove={remove.mutate}
        cards={applications.data.map((application) => {
          const { name, version, source, state, detail, isApproved, program } = application
          return {
            key: name,
            title: (
              <>
                <strong>{name}</strong> {version} <span className="chip">{state}</span>
              </>
            ),
            detail: (
              <>
                <span className="mono">{source}</span> {detail}
              </>
            ),
            buttons: program !== undefined && (
              <>
                {!isApproved && (
                  <button type="button" onClick={() => setAsked(application)}>
                    Approve …
                  </button>
                )}
                {isApproved && state !== 'ready' && (
                  <button type="button" disabled={start.isPending} onClick={() => start.mutate(application)}>
                    Start
                  </button>
                )}
                {state === 'ready' && (
                  <>
                    <button type="button" onClick={() => open.mutate(name)}>
                      Open
                    </button>
                    <button type="button" disabled={stop.isPending} onClick={() => stop.mutate(name)}>
                      Stop
                    </button>
                  </>
                )}
              </>
            ),
          }
        })}
      />
      {asked !== undefined && <Approval application={asked} onClose={() => setAsked(undefined)} />}
    </>
  )
}

/** Asks whether the program may run, with the names of the secrets that it gets. */
function Approval(props: { readonly application: Application; readonly onClose: () => void }) {
  const { name, version, source, revision, program } = props.application
  const secrets = program?.secrets ?? []
  const approve = useAction(
    ['applications'],
    () =>
      agentServer.call('prepareCanvasExtensionBackend', {
        params: { extension_name: name },
        body: { revision: revision ?? '', secrets: [...secrets] },
      }),
    props.onClose,
  )
  return (
    <Dialog title={`Approve ${name} ${version}`} onClose={props.onClose}>
      <p className="wrap">
        It comes from <span className="mono">{source}</span>, revision{' '}
        <span className="mono">{revision}</span>, and runs with the rights of the server:
      </p>
      <pre className="wrap mono">{program?.argv.join(' ')}</pre>
      {secrets.length === 0 ? (
        <p>It gets no secret.</p>
      ) : (
        <>
          <p>It gets the values of these secrets:</p>
          <ul>
            {secrets.map((secret) => (
              <li key={secret} className="mono">
                {secret}
              </li>
            ))}
          </ul>
        </>
      )}
      {approve.error && (
        <p className="problem" role="alert">
          {approve.error.message}
        </p>
      )}
      <div className="buttons">
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
        <button
          type="button"
          className="primary"
          disabled={approve.isPending}
          onClick={() => approve.mutate()}
        >
          Approve
        </button>
      </div>
    </Dialog>
  )
}

async function readAll(signal: AbortSignal): Promise<Application[]> {
  const { canvas_extensions } = await agentServer.call('listCanvasExtensions', { signal })
  return await Promise.all(
    canvas_extensions.map(async ({ name, version, source, manifest }) => {
      const params = { extension_name: name }
      const status = await agentServer.call('getCanvasExtensionBackend', { params, signal })
      const { revision, prepared_revision, state, detail } = status
      const isApproved = revision !== null && revision === prepared_revision
      // The server has checked it.
      const { backend } = (manifest ?? {}) as { readonly backend?: Application['program'] | null }
      return { name, version, source, revision, isApproved, state, detail, program: backend ?? undefined }
    }),
  )
}
