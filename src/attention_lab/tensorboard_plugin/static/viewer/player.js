/** Play one step after another, each once the previous one is on screen. */

const FRAME = 650; // milliseconds per step

export class Player {
  /**
   * @param {{atEnd: function(): boolean, first: function(): Promise, next: function(): Promise}} steps
   * @param {function(): void} stopped called when playing ends
   */
  constructor(steps, stopped) {
    Object.assign(this, { steps, stopped, timer: null, round: 0 });
  }

  /** @returns {boolean} whether it is playing */
  get on() {
    return this.timer !== null;
  }

  /** Stop if it is playing; otherwise play from the current step, or from the first if the current one is the last. */
  toggle() {
    if (this.on) this.#stop();
    else {
      this.round += 1;
      const { round } = this;
      this.timer = setTimeout(() => this.#show(this.steps.atEnd() ? this.steps.first : this.steps.next, round));
    }
  }

  async #show(step, round) {
    await step();
    if (!this.on || round !== this.round) return; // stopped in the meantime, and perhaps started again
    if (this.steps.atEnd()) this.#stop();
    else this.timer = setTimeout(() => this.#show(this.steps.next, round), FRAME);
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.stopped();
  }
}
