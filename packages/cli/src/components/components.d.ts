/** A part that is not installed with the command, and how to get it. */
export interface Component {
  readonly name: string
  readonly packageName: string
  readonly version: string
  readonly integrity: string
  readonly details: string
  readonly directory: string
  readonly isInstalled: boolean
  /** Another one than `version` after an upgrade; undefined when it is not installed. */
  readonly installedVersion: string | undefined
}
/** Where the components of this user are. */
export function userComponents(): string
/** The program of an installed component `node`. */
export function findNode(): string | undefined
export function listComponents(): Component[]
export function findComponent(name: string): Component
export function addComponent(name: string): Promise<Component>
export function removeComponent(name: string): Promise<Component>
