/** Why an action was rejected that was open when a user sent a message. */
export const supersededReason = 'Superseded by a new user message'
/** Why an action was rejected whose hooks have changed since the consent to them. */
export const changedHooksReason =
  'The hooks of the repository, or scripts that they name, have changed since the user allowed them. Nothing is executed until the user allows them again or they are as they were.'

export function deadlineReason(seconds: number): string {
  return `The action was not confirmed within ${seconds} seconds.`
}

/**
 * Whether the server rejected an action on its own, by the reason: the sources of the specification are only
 * `user`, which such events have, and `hook`, where a hook blocked the action.
 */
export function isAutomaticRejection(reason: unknown): boolean {
  return (
    reason === supersededReason ||
    reason === changedHooksReason ||
    (typeof reason === 'string' && /^The action was not confirmed within \d/.test(reason))
  )
}
