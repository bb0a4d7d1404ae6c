import { useState } from 'react'
import { useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { ErrorState, Loading } from '../ui/states.tsx'

/** The name of the checkboxes: a skill that is listed and not among them is switched off. */
const field = 'skill'
/** The name of the hidden fields that list every skill. */
const listed = 'listed-skill'

/**
 * The skills of the server and of a workspace, all chosen at first. They are read when the part is opened:
 * before that a conversation has all.
 */
export function SkillChoice({ directory }: { readonly directory: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Skills</summary>
      {isOpen && <SkillList directory={directory} />}
    </details>
  )
}

function SkillList({ directory }: { readonly directory: string }) {
  const skills = useAnswer(['skills', 'of', directory], (signal) =>
    agentServer.call('listSkills', { body: { project_dir: directory, load_public: false }, signal }),
  )
  if (skills.isPending) return <Loading />
  if (skills.isError) return <ErrorState error={skills.error} retry={() => void skills.refetch()} />
  if (skills.data.skills.length === 0) return <p className="quiet">There are none for this workspace.</p>
  return (
    <fieldset className="checks">
      <legend className="sr-only">Skills</legend>
      {skills.data.skills.map(({ name, description }) => (
        <label key={name} title={description ?? ''}>
          <input type="hidden" name={listed} value={name} />
          <input type="checkbox" name={field} value={name} defaultChecked /> {name}
        </label>
      ))}
    </fieldset>
  )
}

/** The context of an agent with what was chosen: all skills of server and workspace but these. */
export function chosenSkills(form: FormData) {
  const chosen = new Set(form.getAll(field).map(String))
  return {
    load_user_skills: true,
    load_project_skills: true,
    disabled_skills: form
      .getAll(listed)
      .map(String)
      .filter((name) => !chosen.has(name)),
  }
}
