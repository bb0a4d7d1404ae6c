import { useState } from 'react'
import { answerLink } from '../api/session.ts'

/** Asks before a link ends the session of one user and begins that of another. */
export function OtherUser(props: { readonly message: string; readonly token: string }) {
  const { message, token } = props
  const [isBusy, setBusy] = useState(false)
  const answer = (isAccepted: boolean) => {
    setBusy(true)
    void answerLink(token, isAccepted)
  }
  return (
    <section className="sign-in" aria-labelledby="other-user">
      <h1 id="other-user">Change the user?</h1>
      <p>{message}</p>
      <p>
        Whoever made the link sees what you do after the change: conversations that you start and secrets that
        you store belong to that user.
      </p>
      <button type="button" className="primary" disabled={isBusy} onClick={() => answer(false)}>
        Stay signed in
      </button>
      <button type="button" disabled={isBusy} onClick={() => answer(true)}>
        Change the user
      </button>
    </section>
  )
}
