import type { CallOutput } from '@slipway/client'
import { recordOf } from '@slipway/protocol/event-text'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { ErrorState, Loading } from '../ui/states.tsx'

type Field = CallOutput<'getAgentSettingsSchema'>['sections'][number]['fields'][number]

/** A form for settings, made from the description that the server gives. Only what was changed is sent. */
export function SchemaForm({ part }: { readonly part: 'agent' | 'conversation' }) {
  const schema = useQuery({
    queryKey: ['settings-schema', part],
    queryFn: ({ signal }) =>
      agentServer.call(part === 'agent' ? 'getAgentSettingsSchema' : 'getConversationSettingsSchema', {
        signal,
      }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const settings = useAnswer(['settings'], (signal) => agentServer.call('getSettings', { signal }))
  const cache = useQueryClient()
  const [changes, setChanges] = useState<Readonly<Record<string, unknown>>>({})
  const [isAll, setAll] = useState(false)
  const save = useMutation({
    mutationFn: () => {
      const diff = nest(changes)
      return agentServer.call('updateSettings', {
        body: part === 'agent' ? { agent_settings_diff: diff } : { conversation_settings_diff: diff },
      })
    },
    onSuccess: async (result) => {
      cache.setQueryData(['settings'], result)
      setChanges({})
      showToast({ text: 'Saved' })
    },
  })
  if (schema.isPending || settings.isPending) return <Loading />
  if (schema.isError || settings.isError) return <ErrorState error={schema.error ?? settings.error} />
  const values = part === 'agent' ? settings.data.agent_settings : settings.data.conversation_settings
  const { read_only_file: file } = settings.data
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  const isEditable = ({ value_type }: Field) => value_type !== 'array' && value_type !== 'object'
  return (
    <form className="stack" onSubmit={submit}>
      {file !== undefined && (
        <p>
          Read-only: set by <code>{file}</code> on the machine of the server.
        </p>
      )}
      {schema.data.sections.map(({ key, label, fields }) => {
        const shown = fields.filter((field) => isEditable(field) && (isAll || field.prominence !== 'minor'))
        if (shown.length === 0) return null
        return (
          <fieldset key={key} disabled={file !== undefined}>
            <legend>{label}</legend>
            {shown.map((field) => (
              <FieldInput
                key={field.key}
                field={field}
                value={field.key in changes ? changes[field.key] : valueAt(values, field.key)}
                onChange={(value) => setChanges({ ...changes, [field.key]: value })}
              />
            ))}
          </fieldset>
        )
      })}
      <div className="buttons">
        <button type="button" onClick={() => setAll(!isAll)}>
          {isAll ? 'Fewer settings' : 'All settings'}
        </button>
        <button
          type="submit"
          className="primary"
          disabled={Object.keys(changes).length === 0 || save.isPending}
        >
          Save
        </button>
      </div>
    </form>
  )
}

function FieldInput(props: {
  readonly field: Field
  readonly value: unknown
  readonly onChange: (value: unknown) => void
}) {
  const { field, value, onChange } = props
  const id = `field-${field.key}`
  const hint = field.description === null ? undefined : `${id}-hint`
  const isNumber = field.value_type === 'integer' || field.value_type === 'number'
  const common = { id, 'aria-describedby': hint }
  return (
    <div className="field">
      <label htmlFor={id}>{field.label}</label>
      {field.value_type === 'boolean' ? (
        <input
          {...common}
          type="checkbox"
          checked={value === true}
          onChange={({ target }) => onChange(target.checked)}
        />
      ) : field.choices.length > 0 ? (
        <select
          {...common}
          value={String(value ?? '')}
          onChange={({ target }) => onChange(target.value || null)}
        >
          {!field.required && <option value="">Default</option>}
          {field.choices.map((choice) => (
            <option key={String(choice.value)} value={String(choice.value)}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          type={field.secret ? 'password' : isNumber ? 'number' : 'text'}
          step={field.value_type === 'number' ? 'any' : undefined}
          autoComplete="off"
          required={field.required}
          placeholder={field.secret && value ? 'is set' : ''}
          value={field.secret && typeof value === 'string' && /^\*+$/.test(value) ? '' : String(value ?? '')}
          onChange={({ target }) =>
            onChange(target.value === '' ? null : isNumber ? Number(target.value) : target.value)
          }
        />
      )}
      {hint !== undefined && (
        <p id={hint} className="quiet">
          {field.description}
        </p>
      )}
    </div>
  )
}

function valueAt(values: unknown, key: string): unknown {
  return key.split('.').reduce<unknown>((at, name) => recordOf(at)[name], values)
}

/** `{"llm.model": x}` as `{llm: {model: x}}`. */
function nest(changes: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(changes)) {
    const names = key.split('.')
    const last = names.pop() ?? key
    let at = result
    for (const name of names) {
      at[name] ??= {}
      at = at[name] as Record<string, unknown>
    }
    at[last] = value
  }
  return result
}
