import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { profilesQuery, refresh } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'

/** Adds a profile of a model. The model is asked once before anything is saved. */
export function ProfileForm({ onSaved }: { readonly onSaved: () => void }) {
  const [problem, setProblem] = useState<string>()
  const save = useMutation({
    mutationFn: async ({ form, isForced }: { form: FormData; isForced: boolean }) => {
      const text = (name: string) => String(form.get(name) ?? '').trim()
      const llm = { model: text('model'), api_key: text('key') || null, base_url: text('address') || null }
      const params = { name: text('name') }
      let note = ''
      if (!isForced) {
        const { valid, error } = await agentServer.call('validateProfile', { params, body: { llm } })
        if (!valid) return { problem: describeFailure(error) }
        if (error !== null) note = `. It did not answer: ${describeFailure(error)}`
      }
      await agentServer.call('saveProfile', { params, body: { llm } })
      await agentServer.call('activateProfile', { params })
      return { note }
    },
    onSuccess: async ({ problem, note }) => {
      setProblem(problem)
      if (problem !== undefined) return
      showToast({ text: `The model is saved${note}` })
      await refresh(...profilesQuery.queryKey)
      onSaved()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>, isForced = false) => {
    event.preventDefault()
    save.mutate({ form: new FormData(event.currentTarget), isForced })
  }
  return (
    <form className="stack" onSubmit={(event) => submit(event, problem !== undefined && isSecondTry(event))}>
      <label htmlFor="profile-name">Name</label>
      <input
        id="profile-name"
        name="name"
        required
        defaultValue="default"
        pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,63}"
      />
      <label htmlFor="model">Model, as provider/name</label>
      <input id="model" name="model" required placeholder="anthropic/claude-sonnet-4-5" className="mono" />
      <label htmlFor="model-key">Key of the provider</label>
      <input id="model-key" name="key" type="password" autoComplete="off" />
      <label htmlFor="address">Address, where it is not the usual one</label>
      <input id="address" name="address" type="url" placeholder="https://" />
      <p className="problem" role="alert">
        {problem}
      </p>
      <div className="buttons">
        {problem !== undefined && (
          <button type="submit" value="save">
            Save all the same
          </button>
        )}
        <button type="submit" className="primary" disabled={save.isPending}>
          {save.isPending ? 'Trying the model …' : 'Try and save'}
        </button>
      </div>
    </form>
  )
}

/** Why a model did not answer. */
export function describeFailure(error: { readonly type: string; readonly message: string } | null): string {
  return error === null ? 'The model did not answer.' : `${error.type}: ${error.message}`
}

function isSecondTry(event: FormEvent): boolean {
  const { submitter } = event.nativeEvent as SubmitEvent
  return submitter instanceof HTMLButtonElement && submitter.value === 'save'
}
