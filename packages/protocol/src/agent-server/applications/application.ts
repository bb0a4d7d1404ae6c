import * as z from 'zod'
import { boundedText, component } from '../../core/schemas.ts'
import { extensionName, installedMembers } from '../extensions/extension.ts'
import { secretName } from '../settings/settings.ts'

/** The file of an application that describes it. */
export const applicationManifestFile = 'canvas-extension.json'

/** Variables of the server that the program of an application may ask for. */
const inheritable = ['LANG', 'LC_ALL', 'LC_CTYPE', 'PATH', 'TMPDIR', 'TZ'] as const

/** Relative, with slashes, without `..`. Links are judged when the file is opened. */
const packagePath = boundedText(1, 1024).refine(
  (path) => !path.startsWith('/') && !path.includes('\0') && !path.split(/[/\\]/).includes('..'),
  'The path leads out of the package',
)
const page = component('CanvasExtensionPage', {
  id: extensionName,
  title: z.string(),
  path: z.string().regex(/^(?:\/[a-z0-9]+(?:-[a-z0-9]+)*)+$/, 'The path is no absolute route in kebab case'),
})
const artifact = component('CanvasExtensionArtifact', {
  path: packagePath.nullish(),
  url: z.url({ protocol: /^https$/ }).nullish(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'The checksum is not 64 hexadecimal digits'),
}).refine(({ path, url }) => (path == null) !== (url == null), 'An artifact has a path or a URL')

const health = z
  .object({
    path: z
      .string()
      .regex(/^\/[^\s\\]*$/, 'The path begins with a slash')
      .default('/health'),
    timeout_seconds: z.number().positive().max(300).default(30),
    interval_seconds: z.number().min(0.05).max(30).default(0.5),
  })
  .prefault({})

/**
 * The program of an application. `argv` may contain `{artifact_dir}` and `{data_dir}`; where it listens,
 * `{socket}` or `{port}`; and `{key_file}`, a file with what `X-Slipway-Application-Key` of the server's
 * requests has.
 */
const backend = component('CanvasExtensionBackend', {
  schema_version: z.literal(1),
  artifacts: z.record(z.enum(['linux-amd64', 'linux-arm64']), artifact.optional()),
  argv: z
    .array(z.string().refine((text) => !text.includes('\0')))
    .min(1)
    .max(100),
  health,
  inherit_environment: z
    .array(z.enum(inheritable))
    .refine((names) => new Set(names).size === names.length, 'A variable is named twice')
    .default([]),
  /** Of the server: variables of the program, after an approval that names them. */
  secrets: z
    .array(
      secretName.refine(
        (name) => ![...inheritable, 'HOME'].some((variable) => variable === name),
        'The variable has another meaning',
      ),
    )
    .max(50)
    .refine((names) => new Set(names).size === names.length, 'A secret is named twice')
    .default([]),
})
export type ApplicationBackend = z.output<typeof backend>

const hasNoTwins = (texts: readonly string[]) => new Set(texts).size === texts.length

/** What an application is: a bundle of a page, and perhaps its own program. */
export const applicationManifest = component('CanvasExtensionManifest', {
  schema_version: z.literal(1),
  name: extensionName,
  display_name: z.string(),
  version: z.string(),
  description: z.string().default(''),
  entrypoint: packagePath,
  icon: packagePath
    .refine((path) => /\.svg$/i.test(path), 'An icon is an SVG')
    .nullish()
    .transform((path) => path ?? null),
  contributes: z
    .object({
      pages: z
        .array(page)
        .default([])
        .refine((pages) => hasNoTwins(pages.map(({ id }) => id)), 'Two pages have one id')
        .refine((pages) => hasNoTwins(pages.map(({ path }) => path)), 'Two pages have one path'),
    })
    .prefault({}),
  backend: backend.nullish().transform((value) => value ?? null),
})
export type ApplicationManifest = z.output<typeof applicationManifest>

/** `manifest` is null when the files are not valid any more. */
export const installedApplication = component('InstalledCanvasExtensionResponse', {
  ...installedMembers,
  manifest: z.unknown().meta({ description: 'The manifest, or null when the files are not valid any more.' }),
})
export type InstalledApplication = Omit<z.output<typeof installedApplication>, 'manifest'> & {
  readonly manifest: ApplicationManifest | null
}

export const applicationStates = [
  'missing',
  'unsupported',
  'stopped',
  'starting',
  'ready',
  'unhealthy',
] as const

/**
 * The program of an application. `revision`: what is installed; `prepared_revision`: the same while an
 * approval of it counts, so that it may be started.
 */
export const applicationBackendStatus = component('CanvasExtensionBackendStatus', {
  name: z.string(),
  state: z.enum(applicationStates),
  revision: z.string().nullable(),
  prepared_revision: z.string().nullable(),
  pid: z.int().nullable(),
  port: z.int().nullable(),
  detail: z.string().nullable(),
})
export type ApplicationBackendStatus = z.output<typeof applicationBackendStatus>
