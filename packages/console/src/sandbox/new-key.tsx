/**
 * A key that was just made. The server shows it this once, and it is kept in the memory of the page alone.
 */
export function NewKey(props: { readonly value: string; readonly onDone: () => void }) {
  return (
    <div className="card" role="status">
      <div>
        <strong>The new key. It is shown this once.</strong>
        <p className="mono wrap">{props.value}</p>
      </div>
      <button type="button" onClick={props.onDone}>
        I have it
      </button>
    </div>
  )
}
