"""Who to cite: the BibTeX of what a model is made of."""

from torch import nn

_ENTRIES = {
    "walker2025slices": """@inproceedings{walker2025slices,
  title     = {Structured Linear {CDE}s: Maximally Expressive and Parallel-in-Time Sequence
               Models},
  author    = {Walker, Benjamin and Yang, Lingyi and Mu{\\c{c}}a Cirone, Nicola and
               Salvi, Cristopher and Lyons, Terry},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2025}
}""",
    "cirone2024": """@inproceedings{cirone2024,
  title     = {Theoretical Foundations of Deep Selective State-Space Models},
  author    = {Mu{\\c{c}}a Cirone, Nicola and Orvieto, Antonio and Walker, Benjamin and
               Salvi, Cristopher and Lyons, Terry},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024}
}""",
    "kidger2020": """@inproceedings{kidger2020,
  title     = {Neural Controlled Differential Equations for Irregular Time Series},
  author    = {Kidger, Patrick and Morrill, James and Foster, James and Lyons, Terry},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2020}
}""",
    "gu2022s4d": """@inproceedings{gu2022s4d,
  title     = {On the Parameterization and Initialization of Diagonal State Space Models},
  author    = {Gu, Albert and Goel, Karan and Gupta, Ankit and R{\\'e}, Christopher},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2022}
}""",
    "fan2024advancing": """@inproceedings{fan2024advancing,
  title     = {Advancing Regular Language Reasoning in Linear Recurrent Neural Networks},
  author    = {Fan, Ting-Han and Chi, Ta-Chung and Rudnicky, Alexander},
  booktitle = {Proceedings of the North American Chapter of the Association for Computational
               Linguistics},
  year      = {2024}
}""",
    "movahedi2025": """@article{movahedi2025,
  title   = {Fixed-Point {RNN}s: From Diagonal to Dense in a Few Iterations},
  author  = {Movahedi, Sajad and Sarnthein, Felix and Mu{\\c{c}}a Cirone, Nicola and
             Orvieto, Antonio},
  journal = {arXiv preprint},
  year    = {2025}
}""",
    "yang2024parallelizing": """@inproceedings{yang2024parallelizing,
  title     = {Parallelizing Linear Transformers with the Delta Rule over Sequence Length},
  author    = {Yang, Songlin and Wang, Bailin and Zhang, Yu and Shen, Yikang and Kim, Yoon},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024}
}""",
    "siems2025deltaproduct": """@article{siems2025deltaproduct,
  title   = {{DeltaProduct}: Improving State-Tracking in Linear {RNN}s via {Householder} Products},
  author  = {Siems, Julien and Carstensen, Timur and Zela, Arber and Hutter, Frank and
             Pontil, Massimiliano and Grazzi, Riccardo},
  journal = {arXiv preprint},
  year    = {2025}
}""",
    "terzic2025pdssm": """@inproceedings{terzic2025pdssm,
  title     = {Structured Sparse Transition Matrices to Enable State Tracking in State-Space
               Models},
  author    = {Terzi{\\'c}, Aleksandar and Menet, Nicolas and Hersche, Michael and
               Hofmann, Thomas and Rahimi, Abbas},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2025}
}""",
    "dubinin2026statemixing": """@article{dubinin2026statemixing,
  title   = {Improved State Mixing in Higher-Order and Block Diagonal Linear Recurrent Networks},
  author  = {Dubinin, Igor and Orvieto, Antonio and Effenberger, Felix},
  journal = {arXiv preprint arXiv:2602.12021},
  year    = {2026}
}""",
    "walker2024logncde": """@inproceedings{walker2024logncde,
  title = {Log Neural Controlled Differential Equations: The {Lie} Brackets Make a Difference},
  author = {Walker, Benjamin and McLeod, Andrew D. and Qin, Tiexin and Cheng, Yichuan and
            Li, Haoliang and Lyons, Terry},
  booktitle = {International Conference on Machine Learning},
  year = {2024},
}""",
    "morrill2021": """@inproceedings{morrill2021,
  title = {Neural Rough Differential Equations for Long Time Series},
  author = {Morrill, James and Salvi, Cristopher and Kidger, Patrick and Foster, James},
  booktitle = {International Conference on Machine Learning},
  year = {2021},
}""",
    "blelloch1990": """@techreport{blelloch1990,
  title       = {Prefix Sums and Their Applications},
  author      = {Blelloch, Guy E.},
  institution = {School of Computer Science, Carnegie Mellon University},
  year        = {1990}
}""",
    "sylvester1867": """@article{sylvester1867,
  title   = {Thoughts on Inverse Orthogonal Matrices, Simultaneous Sign Successions, and
             Tessellated Pavements in Two or More Colours},
  author  = {Sylvester, James Joseph},
  journal = {Philosophical Magazine},
  year    = {1867}
}""",
    "hochreiter1997lstm": """@article{hochreiter1997lstm,
  title     = {Long Short-Term Memory},
  author    = {Hochreiter, Sepp and Schmidhuber, J{\\"u}rgen},
  journal   = {Neural Computation},
  year      = {1997}
}""",
    "gers2000forget": """@article{gers2000forget,
  title     = {Learning to Forget: Continual Prediction with {LSTM}},
  author    = {Gers, Felix A. and Schmidhuber, J{\\"u}rgen and Cummins, Fred},
  journal   = {Neural Computation},
  year      = {2000}
}""",
    "beck2024xlstm": """@inproceedings{beck2024xlstm,
  title     = {{xLSTM}: Extended Long Short-Term Memory},
  author    = {Beck, Maximilian and P{\\"o}ppel, Korbinian and Spanring, Markus and Auer,
               Andreas and Prudnikova, Oleksandra and Kopp, Michael and Klambauer, G{\\"u}nter
               and Brandstetter, Johannes and Hochreiter, Sepp},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024}
}""",
    "smith2023s5": """@inproceedings{smith2023s5,
  title     = {Simplified State Space Layers for Sequence Modeling},
  author    = {Smith, Jimmy T. H. and Warrington, Andrew and Linderman, Scott W.},
  booktitle = {International Conference on Learning Representations},
  year      = {2023}
}""",
    "orvieto2023lru": """@inproceedings{orvieto2023lru,
  title     = {Resurrecting Recurrent Neural Networks for Long Sequences},
  author    = {Orvieto, Antonio and Smith, Samuel L. and Gu, Albert and Fernando, Anushan and
               Gulcehre, Caglar and Pascanu, Razvan and De, Soham},
  booktitle = {International Conference on Machine Learning},
  year      = {2023}
}""",
    "gu2023mamba": """@article{gu2023mamba,
  title     = {Mamba: Linear-Time Sequence Modeling with Selective State Spaces},
  author    = {Gu, Albert and Dao, Tri},
  journal   = {arXiv preprint},
  year      = {2023}
}""",
    "dao2024mamba2": """@inproceedings{dao2024mamba2,
  title     = {Transformers are {SSM}s: Generalized Models and Efficient Algorithms Through
               Structured State Space Duality},
  author    = {Dao, Tri and Gu, Albert},
  booktitle = {International Conference on Machine Learning},
  year      = {2024}
}""",
    "schlag2021": """@inproceedings{schlag2021,
  title     = {Linear Transformers Are Secretly Fast Weight Programmers},
  author    = {Schlag, Imanol and Irie, Kazuki and Schmidhuber, J{\\"u}rgen},
  booktitle = {International Conference on Machine Learning},
  year      = {2021}
}""",
    "grazzi2025": """@inproceedings{grazzi2025,
  title     = {Unlocking State-Tracking in Linear {RNN}s Through Negative Eigenvalues},
  author    = {Grazzi, Riccardo and Siems, Julien and Zela, Arber and Franke, J{\\"o}rg K. H.
               and Hutter, Frank and Pontil, Massimiliano},
  booktitle = {International Conference on Learning Representations},
  year      = {2025}
}""",
    "yang2025gated": """@inproceedings{yang2025gated,
  title     = {Gated Delta Networks: Improving {Mamba2} with Delta Rule},
  author    = {Yang, Songlin and Kautz, Jan and Hatamizadeh, Ali},
  booktitle = {International Conference on Learning Representations},
  year      = {2025}
}""",
    "peng2025rwkv7": """@article{peng2025rwkv7,
  title     = {{RWKV}-7 \"Goose\" with Expressive Dynamic State Evolution},
  author    = {Peng, Bo and Zhang, Ruichong and Goldstein, Daniel and Alcaide, Eric and others},
  journal   = {arXiv preprint},
  year      = {2025}
}""",
    "yang2024gla": """@inproceedings{yang2024gla,
  title     = {Gated Linear Attention Transformers with Hardware-Efficient Training},
  author    = {Yang, Songlin and Wang, Bailin and Shen, Yikang and Panda, Rameswar and Kim,
               Yoon},
  booktitle = {International Conference on Machine Learning},
  year      = {2024}
}""",
    "vaswani2017": """@inproceedings{vaswani2017,
  title     = {Attention Is All You Need},
  author    = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and
               Jones, Llion and Gomez, Aidan N. and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2017}
}""",
    "su2024roformer": """@article{su2024roformer,
  title     = {{RoFormer}: Enhanced Transformer with Rotary Position Embedding},
  author    = {Su, Jianlin and Ahmed, Murtadha and Lu, Yu and Pan, Shengfeng and Bo, Wen and
               Liu, Yunfeng},
  journal   = {Neurocomputing},
  year      = {2024}
}""",
}


def cite(model: nn.Module) -> str:
    """The BibTeX of the methods that a model uses, each once.

    Args:
        model: any module that contains slicekit layers.

    Example:
        >>> from slicekit import SLiCE, WalshHadamard
        >>> print(cite(SLiCE(4, WalshHadamard(8))).splitlines()[0])
        @inproceedings{walker2025slices,
    """
    keys = [key for module in model.modules() for key in getattr(module, "citations", ())]
    unknown = [key for key in keys if key not in _ENTRIES]
    if unknown:
        raise ValueError(f"citations names {unknown[0]!r}; expected one of {', '.join(_ENTRIES)}")
    return "\n\n".join(_ENTRIES[key] for key in dict.fromkeys(keys))
