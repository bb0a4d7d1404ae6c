const instructions: Readonly<Record<string, string>> = {
  MERGE_CONFLICTS: 'It has merge conflicts. Resolve them, and push the result to its branch.',
  FAILING_CHECKS: 'Some of its checks fail. Find out why, fix it, and push the result to its branch.',
  UNRESOLVED_COMMENTS:
    'It has unanswered review comments. Do what they ask for where it makes sense, answer each, and push the result to its branch.',
  OPEN_ISSUE:
    'Find out what it needs, solve it on its own branch, check the solution, and open a pull request.',
  OPEN_PR: 'Read it, find what is still missing, and finish it on its branch.',
}

/** The first message for a suggested task: `{task_type, repo, issue_number, title, git_provider}`. */
export function suggestedTaskMessage(task: Readonly<Record<string, unknown>>): string {
  const { task_type, repo, issue_number, title } = task
  const kind = typeof task_type === 'string' ? task_type : ''
  const isIssue = kind === 'OPEN_ISSUE'
  const number = typeof issue_number === 'number' ? ` #${issue_number}` : ''
  const repository = typeof repo === 'string' ? ` of ${repo}` : ''
  const name = typeof title === 'string' && title !== '' ? `: ${title}` : ''
  const instruction = Object.hasOwn(instructions, kind) ? instructions[kind] : 'Do what it asks for.'
  return `Work on ${isIssue ? 'the issue' : 'the pull request'}${number}${repository}${name}.\n\n${instruction}`
}
