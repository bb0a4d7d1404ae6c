/** What a user may choose to be asked about, by name. */
export const confirmationPolicies = {
  always: { kind: 'AlwaysConfirm' },
  risky: { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: false },
  never: { kind: 'NeverConfirm' },
} as const
export type ConfirmationName = keyof typeof confirmationPolicies
