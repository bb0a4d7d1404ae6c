import { addComponent, listComponents, removeComponent } from '../../components/components.js'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

/** Lists what can be fetched beside the command, and what is there. */
export async function listComponentsCommand(isJson: boolean): Promise<void> {
  const components = listComponents()
  if (isJson) {
    for (const { name, version, isInstalled } of components)
      await print(`${JSON.stringify({ name, version, installed: isInstalled })}\n`)
    return
  }
  if (components.length === 0) return printNote('A clone has no components: "npm ci" installs everything.')
  const rows = components.map(({ name, version, installedVersion, details }) => {
    const other = installedVersion === undefined ? 'not installed' : `has ${installedVersion}`
    return [name, version, installedVersion === version ? 'installed' : other, details]
  })
  await print(table(rows, [9, 9, 15], ['NAME', 'VERSION', 'STATE', 'WHAT IT IS']))
}

/** Installs a component in the version that this release was tested with. */
export async function addComponentCommand(name: string, isJson: boolean): Promise<void> {
  const { version } = await addComponent(name)
  await printResult(isJson, { name, version, installed: true }, `installed ${name} ${version}`)
}

/** Removes a component. */
export async function removeComponentCommand(name: string, isJson: boolean): Promise<void> {
  const { version } = await removeComponent(name)
  await printResult(isJson, { name, version, installed: false }, `removed ${name} ${version}`)
}
