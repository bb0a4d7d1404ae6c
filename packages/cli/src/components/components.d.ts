/** A part that is not installed with the command, and how to get it. */
export interface Component {
  readonly name: string
  readonly packageName: string
  readonly version: string
  readonly integrity: string
  readonly details: string
  readonly directory: string
  readonly isInstalled: boolean
}
export function listComponents(): Component[]
export function findComponent(name: string): Component
export function addComponent(name: string): Promise<Component>
export function removeComponent(name: string): Promise<Component>
