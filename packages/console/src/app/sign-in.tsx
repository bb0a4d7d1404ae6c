import { type FormEvent, useState } from 'react'
import { errorText, type ServerKind, signIn } from '../api/session.ts'

/** Asks for the key. It is sent once and not kept: a cookie that no script can read takes its place. */
export function SignIn(props: { readonly kind: ServerKind; readonly message: string | undefined }) {
  const { kind, message } = props
  const [problem, setProblem] = useState(message)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = event.currentTarget
    const key = String(new FormData(form).get('key') ?? '').trim()
    if (key === '') return
    setBusy(true)
    try {
      if (!(await signIn(key))) {
        form.reset()
        setProblem('This key is not accepted.')
      }
    } catch (error) {
      setProblem(errorText(error))
    }
    setBusy(false)
  }
  return (
    <form className="sign-in" onSubmit={(event) => void submit(event)}>
      <h1>Sign in</h1>
      <p>
        {kind === 'agent'
          ? 'This server has a session key. It is in the file session-key of its data directory, or in the link that the command prints.'
          : 'Sign in with a key of your account.'}
      </p>
      <label htmlFor="key">Key</label>
      <input id="key" name="key" type="password" autoComplete="off" required aria-describedby="key-problem" />
      <p id="key-problem" className="problem" role="alert">
        {problem}
      </p>
      <button type="submit" className="primary" disabled={isBusy}>
        {isBusy ? 'Signing in …' : 'Sign in'}
      </button>
    </form>
  )
}
